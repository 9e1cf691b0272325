"""`kill -9` of a broker that hands messages out: none is lost, and none that was acknowledged in time comes again."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from rocketlake.base.errors import RocketLakeError
from rocketlake.codec import property_text
from rocketlake.protocol.request_code import RequestCode as Code
from tests.crash.broker_process import BrokerProcess
from tests.pops import PopClient
from tests.requests import send_header
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 8
INVISIBLE_MS = 3000
MARGIN_MS = 1000
"""An acknowledgement that is answered so much before the end of its time counts as one in time."""
FORGOTTEN = 10
"""One in so many messages is not acknowledged the first time."""
QUEUES = 4


class Load:
    """Sends and pops, and what came of it."""

    def __init__(self, client: PopClient, moments: random.Random) -> None:
        self.client = client
        self.moments = moments
        self.sent: set[str] = set()
        self.acked: set[str] = set()
        self.late: set[str] = set()
        """Acknowledged, but nobody knows whether in time: they may come again."""
        self.again: list[str] = []
        """Came though acknowledged in time."""

    async def send(self, prefix: str) -> None:
        """Until the broker dies."""
        number = 0
        while True:
            body = f"{prefix}-{number}"
            properties = property_text.encode({"UNIQ_KEY": f"KEY{body}"}).decode()
            header = send_header(self.client.topic, number % QUEUES, properties)
            if (await self.client.ask(Code.SEND_MESSAGE_V2, header, body.encode())).code == 0:
                self.sent.add(body)
            number += 1

    async def take(self) -> None:
        """Pop and acknowledge: until the broker dies, or is asked to end."""
        while True:
            await self.take_once()

    async def take_once(self) -> None:
        for popped in await self.client.pop(INVISIBLE_MS, poll_ms=200, max_msg_nums=8):
            if popped.body in self.acked:
                self.again.append(popped.body)
            is_first = popped.message.reconsume_times == 0
            if is_first and self.moments.randrange(FORGOTTEN) == 0:
                continue
            self.late.add(popped.body)  # the broker may die before it answers: then it may come again, or not
            if (await self.client.ack(popped)).code == 0:
                end_ms = popped.handle.pop_ms + popped.handle.invisible_ms
                in_time = self.client.clock.now_ms() < end_ms - MARGIN_MS
                if in_time:
                    self.acked.add(popped.body)
            else:
                self.late.discard(popped.body)

    @property
    def open(self) -> set[str]:
        return self.sent - self.acked - self.late


@pytest.mark.crash
@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.smoke), KILLS])
async def test_a_killed_broker_loses_no_popped_message_and_repeats_no_acknowledged_one(
    kills: int, tmp_path: Path
) -> None:
    (seed,) = drawn("kills of pops", 1)
    moments = random.Random(seed)
    broker = BrokerProcess(tmp_path, flushDiskType="SYNC_FLUSH", reviveInterval=100, brokerName="b")
    load: Load | None = None
    for kill in range(kills):
        broker.start()
        client = PopClient(broker.address)
        load = load_of(client, moments, load)
        tasks = [asyncio.create_task(load.send(f"k{kill}")), *[asyncio.create_task(load.take()) for _ in range(2)]]
        await asyncio.sleep(moments.uniform(0.5, 5))
        broker.kill()
        await ended(tasks)
        await client.net.close()
    broker.start()
    client = PopClient(broker.address)
    load = load_of(client, moments, load)
    try:
        async with asyncio.timeout(60):
            while load.open:
                await load.take_once()
    except TimeoutError:
        pytest.fail(f"seed {seed}: {len(load.open)} of {len(load.sent)} are lost: {sorted(load.open)[:20]}")
    await client.net.close()
    assert broker.stop() == 0
    assert load.again == [], f"seed {seed}"
    assert len(load.acked) > kills, "the load must really have run"


def load_of(client: PopClient, moments: random.Random, before: Load | None) -> Load:
    load = Load(client, moments)
    if before is not None:
        load.sent, load.acked, load.late, load.again = before.sent, before.acked, before.late, before.again
    return load


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    """The broker is dead: they end with an error of the network."""
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, RocketLakeError | OSError), result
