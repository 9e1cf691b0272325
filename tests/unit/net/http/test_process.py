"""The figures of the process."""

from __future__ import annotations

import asyncio

from rocketlake.base.clock import ManualClock
from rocketlake.net.http.process import LoopDelay, process_families


async def test_a_loop_that_is_late_is_seen() -> None:
    clock = ManualClock()
    delay = LoopDelay(clock)
    await delay.start()
    await clock.run_for(1_000)
    assert (sum(delay.delays.counts), delay.delays.counts[0]) == (10, 10)
    clock.advance(650)  # nothing ran meanwhile: five looks were missed, one comes late
    for _ in range(5):
        await asyncio.sleep(0)
    assert delay.delays.sum > 0.5
    await delay.stop()


async def test_the_process_is_described() -> None:
    clock = ManualClock()
    found = {family.wire_name: list(family.samples) for family in process_families(1000, LoopDelay(clock), "V5")}
    assert found["rocketlake_up_since_seconds"] == [("", 1.0)]
    assert float(found["rocketlake_process_resident_memory_bytes"][0][1]) > 1e6  # type: ignore[arg-type]
    assert float(found["rocketlake_process_open_fds"][0][1]) > 2  # type: ignore[arg-type]
