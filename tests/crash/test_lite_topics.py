"""`kill -9` of a broker with lite topics: no message is lost, and each lite topic is read in its order."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from pathlib import Path

import pytest

from rocketlake.base.errors import RocketLakeError
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.lite import LiteAction
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode as Code
from tests.crash.broker_process import BrokerProcess
from tests.lites import PARENT, LiteClient
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 8
LITES = 20
FORGOTTEN = 10
"""One in so many messages is not acknowledged."""


class Load:
    """Sends and pops, and what came of it."""

    def __init__(self, moments: random.Random) -> None:
        self.moments = moments
        self.client = LiteClient("")
        self.next = 0
        self.sent: set[int] = set()
        self.got: defaultdict[str, list[int]] = defaultdict(list)
        """Lite topic -> its messages in the order in which they came first."""
        self.seen: set[int] = set()

    async def begin(self, address: str) -> None:
        """The broker has started."""
        self.client = LiteClient(address)
        header = CreateTopicHeader(
            topic=PARENT,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            attributes="+message.type=LITE",
        )
        assert (await self.client.ask(Code.UPDATE_AND_CREATE_TOPIC, header)).code == 0
        entry = GroupEntry(group_name="g", attributes={"+lite.bind.topic": PARENT})
        body = entry.encode()
        assert (await self.client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == 0
        answer = await self.client.change_set(LiteAction.COMPLETE_ADD, *[f"l{lite}" for lite in range(LITES)])
        assert answer.code == 0, answer.remark

    async def send(self) -> None:
        """Until the broker dies."""
        while True:
            number, self.next = self.next, self.next + 1
            if (await self.client.put(f"l{number % LITES}", str(number))).code == 0:
                self.sent.add(number)

    async def take(self) -> None:
        """Until the broker dies."""
        while True:
            await self.take_once()

    async def take_once(self) -> None:
        for popped in await self.client.pop_lite(1000, poll_ms=200, count=8):
            number = int(popped.body)
            if number not in self.seen:
                self.seen.add(number)
                self.got[popped.lite].append(number)
            if self.moments.randrange(FORGOTTEN):
                await self.client.ack_lite(popped)


@pytest.mark.crash
@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.smoke), KILLS])
async def test_a_killed_broker_loses_no_lite_message_and_keeps_their_order(kills: int, tmp_path: Path) -> None:
    (seed,) = drawn("kills of lite topics", 1)
    load = Load(random.Random(seed))
    broker = BrokerProcess(tmp_path, flushDiskType="SYNC_FLUSH", brokerName="b")
    for _ in range(kills):
        broker.start()
        await load.begin(broker.address)
        tasks = [asyncio.create_task(load.send()), asyncio.create_task(load.take())]
        await asyncio.sleep(load.moments.uniform(0.5, 5))
        broker.kill()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, RocketLakeError | OSError), result
        await load.client.net.close()
    broker.start()
    await load.begin(broker.address)
    try:
        async with asyncio.timeout(60):
            while load.sent - load.seen:
                await load.take_once()
    except TimeoutError:
        pytest.fail(f"seed {seed}: lost {sorted(load.sent - load.seen)[:20]} of {len(load.sent)}")
    await load.client.net.close()
    assert broker.stop() == 0
    for lite, numbers in load.got.items():
        assert numbers == sorted(numbers), f"seed {seed}: {lite}"
    assert len(load.sent) > kills, "the load must really have run"
