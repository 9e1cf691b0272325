"""`kill -9` of a real broker while it writes the file of its light queues. No room for it: test_full_disk.py."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.light_load import SAVES_OFTEN, LightLoad
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 2
LITES = 4000


def _die(broker: BrokerProcess, half: Path, seconds: float) -> bool:
    """Kill the broker so long after it begins to write the next file; True if it has not ended."""
    until = time.monotonic() + 60
    while not half.exists():
        assert time.monotonic() < until, "no file was written for a minute"
    time.sleep(seconds)
    broker.kill()
    return half.exists()


@pytest.mark.crash
async def test_a_broker_that_is_killed_while_it_writes_the_file_knows_all_lite_topics(tmp_path: Path) -> None:
    (seed,) = drawn("kills in the file of light queues", 1)
    moments = random.Random(seed)
    broker = BrokerProcess(tmp_path)
    broker.prefix = SAVES_OFTEN
    file = broker.store / "config" / "lightQueues"
    half = file.with_name("lightQueues.tmp")
    load = LightLoad(broker.address, LITES, moments)
    broker.start()
    await load.make_parent()
    await load.send_to_each()
    halves = 0
    for number in range(KILLS):
        if number:
            broker.start()
        sending = asyncio.create_task(load.send_until_dead())
        halves += await asyncio.to_thread(_die, broker, half, moments.uniform(0, 0.004))
        await sending
    broker.start()
    await load.send_to_each()
    assert broker.stop() == 0
    assert not half.exists()
    load.check(broker.store)
    log = (tmp_path / "broker.log").read_text()
    assert "lightQueues is" not in log, "each start found a whole file of its log"
    assert halves, f"seed {seed}: no kill came before the file had its name"
