"""`kill -9` of a broker with lite topics, and a group of each kind: shared, exclusive, wildcard.

No message is lost, none that was acknowledged in time comes again, each lite topic is read in its order, and what is in
flight, or another client's, comes to nobody else.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from time import monotonic

import pytest

from rocketlake.base.errors import RocketLakeError
from tests.crash.broker_process import BrokerProcess
from tests.crash.lite_popping import LitePopping
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 8


@pytest.mark.crash
@pytest.mark.parametrize(("kills", "seconds"), [pytest.param(1, 2.0, marks=pytest.mark.smoke), (KILLS, 5.0)])
async def test_a_killed_broker_loses_repeats_and_mixes_no_lite_message(
    kills: int, seconds: float, tmp_path: Path
) -> None:
    (seed,) = drawn("kills of lite topics", 1)
    moments = random.Random(seed)
    load = LitePopping(moments)
    broker = BrokerProcess(tmp_path, flushDiskType="SYNC_FLUSH", brokerName="b", flushConsumerOffsetInterval=100)
    for _ in range(kills):
        broker.start()
        await load.begin(broker.address)
        tasks = load.tasks()
        await asyncio.sleep(moments.uniform(0.5, seconds))
        died = monotonic()
        broker.kill()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, RocketLakeError | OSError), f"seed {seed}: {result!r}"
        await load.end(died)
    broker.start()
    await load.begin(broker.address)
    await load.take_all()
    await load.end(monotonic())
    assert broker.stop() == 0
    load.check(least=5 * kills)
