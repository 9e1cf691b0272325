"""What a start believes of the timer topic: check points of the broker, never what a user has made to look like one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.pop import POINT_SPAN_MAX
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.bodies.pop import CheckPoint
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.dying_broker import HOST, DyingBroker
from rocketlake.testing.virtual_time import run_virtual
from tests.pops import PopClient
from tests.requests import send_header


def test_a_delayed_message_that_looks_like_a_check_point_moves_no_group() -> None:
    clock = ManualClock()
    net = MemoryNet(clock=clock)
    store = StoreConfig(commit_log_file_bytes=256 * 1024, index_slots=10, index_entries=100)
    config = BrokerConfig(
        broker_name="b", listen_host=HOST, listen_port=10911, fast_listen_port=0, store_root=Path("/store")
    )
    node = DyingBroker(config, store, net, clock, random.Random(0))
    client = PopClient(f"{HOST}:10911", net=NetClient(None, clock, {}, network=net.host("10.0.1.1")))
    client.clock = clock  # type: ignore[assignment]

    async def send(topic: str, body: bytes, properties: str = "") -> None:
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, 0, properties), body)).code == 0

    async def run() -> None:
        broker = await node.start()
        for name in ("T", "OTHER"):
            broker.topics.put(TopicConfig(name, read_queues=1, write_queues=1))
        assert await client.pop() == []  # the group is there from now on
        await send("T", b"one")
        point = CheckPoint(group="g", count=2, invisible_ms=1, pop_ms=1, queue_id=0, start_offset=0, topic="T")
        in_an_hour = clock.now_ms() + 3_600_000
        await send("OTHER", point.encode(), f"TAGS\x01ck\x02TIMER_DELIVER_MS\x01{in_an_hour}\x02")
        await node.close()
        await node.start()
        assert [each.body for each in await client.pop(poll_ms=1000)] == ["one"]
        await client.net.close()
        await node.close()

    run_virtual(run(), clock)


@pytest.mark.parametrize("members", ['"n":1000000000000000', f'"n":{POINT_SPAN_MAX + 1}'])
def test_a_check_point_of_more_messages_than_any_pop_hands_out_is_none(members: str) -> None:
    with pytest.raises(UsageError, match="more than"):
        CheckPoint.decode(f'{{"c":"g","it":1,{members},"pt":1,"q":0,"so":0,"t":"T"}}'.encode())
