"""No single request keeps the loop for long: CPU time of the loop's thread.

The design allows 20 ms. The test allows a bit more for a busy machine, and takes the best of some tries.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.group import GroupConfig
from rocketlake.model.message import Message
from rocketlake.model.topic import DataVersion, TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.route_table import Registration
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupConfigList, GroupEntry
from rocketlake.protocol.bodies.long_text import at_once
from rocketlake.protocol.bodies.register import RegisterBrokerBody, register_crc
from rocketlake.protocol.bodies.topic import TopicConfigList, TopicEntry, TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers import namesrv as headers
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.config import StoreConfig
from tests.requests import send_header

CPU_SECONDS_MAX = 0.025
TRIES = 4
QUEUES = 8192
MANY = 4_000


def batch(count: int, properties: dict[str, str] | None = None) -> Command:
    header = send_header(batch=True)
    return Command.request(
        Code.SEND_MESSAGE_V2, header, encode_batch([Message.with_properties("T", b"", properties or {})] * count)
    )


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


def subscriptions(count: int) -> Command:
    wanted = [{"topic": f"S{number}", "subString": "*"} for number in range(count)]
    consumer = {"groupName": "MANY_TOPICS", "subscriptionDataSet": wanted}
    return asked(Code.HEART_BEAT, {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []})


def queues(count: int) -> dict[str, Any]:
    named = [{"topic": "WIDE", "brokerName": "b", "queueId": number} for number in range(count)]
    return {"clientId": "c", "consumerGroup": "g", "mqSet": named}


def asked(code: Code, body: dict[str, Any] | None = None, **fields: str) -> Command:
    command = Command(int(code), body=None if body is None else json.dumps(body).encode())
    command.fields = fields
    return command


POPPED = {
    "topic": "WIDE", "consumerGroup": "g", "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "60000",
    "pollTime": "0", "bornTime": "0", "initMode": "0",
}  # fmt: skip
WANTED = {"topic": "WIDE", "consumerGroup": "BIG", "clientId": "m1", "messageModel": "BROADCASTING"}
# Each gets the number of the try: what is deleted must be there again.
REQUESTS: dict[str, Callable[[int], Command]] = {
    "largest batch of the fast way": lambda _n: batch(4096, {"KEYS": "a b c", "TAGS": "t", "UNIQ_KEY": "0" * 32}),
    "batch of the ordinary way": lambda _n: batch(4096, {"KEYS": "\u00e4"}),
    "large batch": lambda _n: batch(30_000, {"UNIQ_KEY": "0" * 32, "WAIT": "true"}),
    "bare keys": lambda _n: Command(34, body=b"{" + b",".join(b"%d:1" % (n % 10) for n in range(15_000)) + b"}"),
    "many bare keys": lambda _n: Command(34, body=b"{" + b",".join(b"%d:1" % (n % 10) for n in range(250_000)) + b"}"),
    "dialect": lambda _n: Command(34, body=b"{" + b",".join([b"{a:1}:1"] * 2000) + b"}"),
    "heartbeat": lambda _n: heartbeat(MANY),
    "heartbeat with numbers for names": lambda _n: asked(
        Code.HEART_BEAT,
        {"clientID": "c", "consumerDataSet": [{"groupName": f"O{n}", "messageModel": 1} for n in range(MANY)]},
    ),
    "heartbeat of many topics": lambda _n: subscriptions(MANY),
    "topic list": lambda _n: Command(
        int(Code.UPDATE_AND_CREATE_TOPIC_LIST),
        body=TopicConfigList(topics=[TopicEntry(topic_name=f"L{number}") for number in range(MANY)]).encode(),
    ),
    "group list": lambda _n: Command(
        int(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
        body=GroupConfigList(groups=[GroupEntry(group_name=f"L{number}") for number in range(1000)]).encode(),
    ),
    "large group": lambda _n: asked(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        {"groupConfigList": [{"groupName": "A", "attributes": {str(number): "x" for number in range(20_000)}}]},
    ),
    "settings": lambda _n: Command(int(Code.UPDATE_BROKER_CONFIG), body=b"a=1\n" * 100_000),
    "lock": lambda _n: asked(Code.LOCK_BATCH_MQ, queues(QUEUES)),
    "unlock": lambda _n: asked(Code.UNLOCK_BATCH_MQ, queues(QUEUES)),
    "assignment": lambda _n: asked(Code.QUERY_ASSIGNMENT, WANTED),
    "join": lambda n: asked(Code.HEART_BEAT, {"clientID": f"c{n}", "consumerDataSet": [{"groupName": "BIG"}]}),
    "consumers": lambda _n: asked(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="BIG"),
    "producers": lambda _n: asked(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="BIG"),
    "all producers": lambda _n: asked(Code.GET_ALL_PRODUCER_INFO),
    "time span": lambda _n: asked(Code.QUERY_CONSUME_TIME_SPAN, topic="WIDE", group="g"),
    "topic stats": lambda _n: asked(Code.GET_TOPIC_STATS_INFO, topic="WIDE"),
    "consume stats": lambda _n: asked(Code.GET_CONSUME_STATS, consumerGroup="g", topic="WIDE"),
    "all consume stats": lambda _n: asked(Code.GET_BROKER_CONSUME_STATS, isOrder="false"),
    "pop": lambda _n: asked(Code.POP_MESSAGE, **POPPED),
    "notification": lambda _n: asked(Code.NOTIFICATION, **POPPED),
    "correction": lambda _n: asked(Code.QUERY_CORRECTION_OFFSET, topic="WIDE", compareGroup="g"),
    "reset": lambda _n: asked(
        Code.INVOKE_BROKER_TO_RESET_OFFSET, topic="WIDE", group="g", timestamp="1", isForce="true"
    ),
    "clone": lambda n: asked(Code.CLONE_GROUP_OFFSET, srcGroup="MANY_TOPICS", destGroup=f"m{n}", offline="true"),
    "topics of a group": lambda _n: asked(Code.QUERY_TOPICS_BY_CONSUMER, group="MANY_TOPICS"),
    "delete group": lambda n: asked(Code.DELETE_SUBSCRIPTIONGROUP, groupName=f"m{n}", cleanOffset="true"),
    "delete topic": lambda n: asked(Code.DELETE_TOPIC_IN_BROKER, topic=f"GONE{n}"),
    "all topics": lambda _n: asked(Code.GET_ALL_TOPIC_CONFIG),
    "all groups": lambda _n: asked(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    "all offsets": lambda _n: asked(Code.GET_ALL_CONSUMER_OFFSET),
}
REFUSED = {"bare keys", "many bare keys", "dialect", "large group", "settings"}
EMPTY = {"pop"}
"""Answered with a code that says: nothing there."""


class FarLink:
    """A member of a large group, as the broker sees it."""

    remote = ("10.0.0.1", 1)
    closed = False
    writable = True
    user = None

    def __init__(self, number: int) -> None:
        self.address = f"10.0.0.1:{number}"

    def send(self, _command: Command) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(store_root=tmp_path, listen_port=0, fast_listen_port=0, advertised_host="127.0.0.1")
    async with Broker(config, StoreConfig(commit_log_file_bytes=1 << 24)) as broker:
        broker.topics.put(TopicConfig("T"))
        for name in ("WIDE", *[f"GONE{number}" for number in range(TRIES)]):
            broker.topics.put(TopicConfig(name, read_queues=QUEUES, write_queues=QUEUES))
        broker.groups.put(GroupConfig("g"))
        for queue_id in range(QUEUES):
            broker.offsets.commit("g", "WIDE", queue_id, 0)
        for number in range(MANY):
            broker.topics.put(TopicConfig(f"N{number}"))
            broker.offsets.commit("MANY_TOPICS", f"N{number}", 0, 1)
            for attempt in range(TRIES):
                broker.offsets.commit(f"MANY{number}", f"GONE{attempt}", 0, 1)
            link: Any = FarLink(number)
            broker.clients.consumers.register("BIG", link, f"m{number}", "", "CLUSTERING", "", ())
            broker.clients.producers.register("BIG", link, f"m{number}")
        yield broker


def ask(address: str, command: Command) -> Command:
    """In a thread of its own: what the asker does is no cost of the broker's."""

    async def invoke() -> Command:
        async with NetClient() as client:
            return await client.invoke(address, command, 60_000)

    return asyncio.run(invoke())


class Meter:
    """The CPU time of the longest call that the loop of this thread makes."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._thread = threading.get_ident()
        self._real = asyncio.Handle._run

    def run(self, handle: asyncio.Handle) -> Any:
        if threading.get_ident() != self._thread:
            return self._real(handle)
        begin = time.thread_time()
        self._real(handle)
        self.worst = max(self.worst, time.thread_time() - begin)


async def cost_of(
    server: Broker | NameServer,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    is_over: Callable[[], bool] = lambda: True,
) -> tuple[float, Command]:
    meter = Meter()
    gc.disable()  # what other tests left in this process is not the request's
    try:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", lambda handle: meter.run(handle))
            await asyncio.sleep(0)
            meter.worst = 0.0
            answer = await asyncio.to_thread(ask, server.address, command)
            while not is_over():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    finally:
        gc.enable()
    return meter.worst, answer


@pytest.mark.long
async def test_no_request_keeps_the_loop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {}
    for name, make in REQUESTS.items():
        worst = []
        for attempt in range(TRIES):
            cost, answer = await cost_of(broker, make(attempt), monkeypatch)
            worst.append(cost)
            if cost <= CPU_SECONDS_MAX:
                break
        costs[name] = (round(min(worst) * 1000, 1), answer.code, (answer.remark or "")[:60])
    assert not {name: cost for name, cost in costs.items() if cost[0] > CPU_SECONDS_MAX * 1000}, costs
    assert {name for name, cost in costs.items() if cost[1]} == REFUSED | EMPTY, costs


TOPICS = 10_000
CONFIGS = [TopicConfig(f"topic_number_{number}") for number in range(TOPICS)]
IDENTITY: dict[str, Any] = {
    "broker_name": "b",
    "broker_addr": "127.0.0.1:10911",
    "cluster_name": "c",
    "broker_id": 0,
}


def registration(version: int, *, compressed: bool = False) -> Command:
    """Every topic has other queues than it has there."""
    configs = [replace(config, write_queues=4) for config in CONFIGS]
    body = RegisterBrokerBody(topics=TopicTable.from_model(DataVersion(counter=version), configs))
    data = body.encode_compressed() if compressed else body.encode()
    header = headers.RegisterBrokerHeader(
        **IDENTITY, ha_server_addr="", compressed=compressed, body_crc32=register_crc(data)
    )
    return Command.request(Code.REGISTER_BROKER, header, data)


NAME_SERVER_REQUESTS: dict[str, Callable[[int], Command]] = {
    "registration": lambda n: registration(1 + n),
    "compressed registration": lambda n: registration(1 + n, compressed=True),
    "all topics": lambda _n: asked(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    "topics of a cluster": lambda _n: asked(Code.GET_TOPICS_BY_CLUSTER, cluster="c"),
    "unit topics": lambda _n: asked(Code.GET_UNIT_TOPIC_LIST),
    "cluster": lambda _n: asked(Code.GET_BROKER_CLUSTER_INFO),
    "wipe": lambda _n: asked(Code.WIPE_WRITE_PERM_OF_BROKER, brokerName="b"),
    "delete topic": lambda _n: asked(Code.DELETE_TOPIC_IN_NAMESRV, topic="topic_number_1"),
    "farewell": lambda _n: Command.request(Code.UNREGISTER_BROKER, headers.UnregisterBrokerHeader(**IDENTITY)),
}


async def test_no_request_keeps_the_loop_of_a_name_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration's link is lost behind its answer, with all topics of the broker: that is measured with it."""
    link: Any = FarLink(0)
    costs = {}
    async with NameServer(NameServerConfig(listen_port=0, kv_config_path=tmp_path / "kv.json")) as server:
        for name, make in NAME_SERVER_REQUESTS.items():
            ends = "registration" in name
            is_over = (lambda: not server.routes.topics()) if ends else (lambda: True)
            worst = []
            for attempt in range(TRIES):
                topics = {config.name: config for config in CONFIGS}
                at_once(server.routes.register(Registration("c", "127.0.0.1:10911", "b", 0, topics=topics), link))
                cost, answer = await cost_of(server, make(attempt), monkeypatch, is_over)
                worst.append(cost)
                if cost <= CPU_SECONDS_MAX:
                    break
            costs[name] = (round(min(worst) * 1000, 1), answer.code, (answer.remark or "")[:60])
            assert server.routes.topics() or name == "farewell" or ends
    assert not {name: cost for name, cost in costs.items() if cost[0] > CPU_SECONDS_MAX * 1000 or cost[1]}, costs
