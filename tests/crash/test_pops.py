"""`kill -9` of a broker that hands messages out: none is lost, and none that was acknowledged in time comes again."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from rocketlake.base.errors import RocketLakeError
from tests.crash.broker_process import BrokerProcess
from tests.crash.popping import Popping
from tests.pops import PopClient
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 8


@pytest.mark.crash
@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.smoke), KILLS])
async def test_a_killed_broker_loses_no_popped_message_and_repeats_no_acknowledged_one(
    kills: int, tmp_path: Path
) -> None:
    (seed,) = drawn("kills of pops", 1)
    moments = random.Random(seed)
    broker = BrokerProcess(tmp_path, flushDiskType="SYNC_FLUSH", reviveInterval=100, brokerName="b")
    load: Popping | None = None
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


def load_of(client: PopClient, moments: random.Random, before: Popping | None) -> Popping:
    load = Popping(client, moments)
    if before is not None:
        load.sent, load.acked, load.late, load.again = before.sent, before.acked, before.late, before.again
    return load


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    """The broker is dead: they end with an error of the network."""
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, RocketLakeError | OSError), result
