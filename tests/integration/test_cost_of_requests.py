"""No single request keeps the loop for long (review, D8): CPU time of the loop's thread.

The bound is 20 ms by design; the test allows more, for a slow machine. Before, each took 0.3 to 1.2 s.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupConfigList, GroupEntry
from rocketlake.protocol.bodies.topic import TopicConfigList, TopicEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.config import StoreConfig
from tests.requests import send_header

CPU_SECONDS_MAX = 0.1
QUEUES = 16_384
MANY = 4_000


def batch(count: int) -> Command:
    header = send_header(batch=True)
    return Command.request(Code.SEND_MESSAGE_V2, header, encode_batch([Message("T", b"")] * count))


def heartbeat(groups: int) -> Command:
    consumers = [
        {
            "groupName": f"G{number}",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [],
            "unitMode": False,
        }
        for number in range(groups)
    ]
    body = {"clientID": "c", "consumerDataSet": consumers, "producerDataSet": []}
    return Command.request(Code.HEART_BEAT, None, json.dumps(body).encode())


def asked(code: Code, **fields: str) -> Command:
    command = Command(int(code))
    command.fields = fields
    return command


REQUESTS: dict[str, Callable[[], Command]] = {
    "batch too large": lambda: batch(150_000),
    "largest batch": lambda: batch(4096),
    "bare keys": lambda: Command(34, body=b"{" + b",".join(b"%d:1" % (n % 10) for n in range(250_000)) + b"}"),
    "heartbeat": lambda: heartbeat(MANY),
    "topic list": lambda: Command(
        int(Code.UPDATE_AND_CREATE_TOPIC_LIST),
        body=TopicConfigList(topics=[TopicEntry(topic_name=f"L{number}") for number in range(MANY)]).encode(),
    ),
    "group list": lambda: Command(
        int(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
        body=GroupConfigList(groups=[GroupEntry(group_name=f"L{number}") for number in range(1000)]).encode(),
    ),
    "time span": lambda: asked(Code.QUERY_CONSUME_TIME_SPAN, topic="WIDE", group="g"),
    "topic stats": lambda: asked(Code.GET_TOPIC_STATS_INFO, topic="WIDE"),
    "consume stats": lambda: asked(Code.GET_CONSUME_STATS, consumerGroup="g", topic="WIDE"),
    "all topics": lambda: asked(Code.GET_ALL_TOPIC_CONFIG),
    "all groups": lambda: asked(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    "all offsets": lambda: asked(Code.GET_ALL_CONSUMER_OFFSET),
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(store_root=tmp_path, listen_port=0, fast_listen_port=0, advertised_host="127.0.0.1")
    async with Broker(config, StoreConfig(commit_log_file_bytes=1 << 24)) as broker:
        broker.topics.put(TopicConfig("T"))
        broker.topics.put(TopicConfig("WIDE", read_queues=QUEUES, write_queues=QUEUES))
        yield broker


async def test_no_request_keeps_the_loop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    worst = 0.0
    real = asyncio.Handle._run

    def run(handle: asyncio.Handle) -> Any:
        nonlocal worst
        begin = time.thread_time()
        real(handle)
        worst = max(worst, time.thread_time() - begin)

    costs = {}
    async with NetClient() as client:
        for name, make in REQUESTS.items():
            command = make()
            await client.invoke(broker.address, asked(Code.GET_TOPIC_CONFIG, topic="T"), 60_000)
            gc.collect()  # what other tests left in this process is not the request's
            gc.freeze()
            with monkeypatch.context() as patch:
                patch.setattr(asyncio.Handle, "_run", run)
                await asyncio.sleep(0)
                worst = 0.0
                answer = await client.invoke(broker.address, command, 60_000)
            gc.unfreeze()
            costs[name] = (round(worst * 1000, 1), answer.code, (answer.remark or "")[:60])
    assert not {name: cost for name, cost in costs.items() if cost[0] > CPU_SECONDS_MAX * 1000}, costs
    refused = {name for name, cost in costs.items() if cost[1]}
    assert refused == {"batch too large", "bare keys"}, costs
