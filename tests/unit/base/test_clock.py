from __future__ import annotations

import asyncio
import time

import pytest

from rocketlake.base.clock import ManualClock, SystemClock


def test_the_system_clock_counts_milliseconds_since_1970():
    clock = SystemClock()
    before = time.time()
    assert before - 1 <= clock.now_ms() / 1000 <= time.time() + 1
    assert clock.monotonic() <= clock.monotonic()


async def test_the_system_clock_sleeps_and_takes_negative_time_as_none():
    clock = SystemClock()
    started = clock.monotonic()
    await clock.sleep(-5)
    await clock.sleep(0.01)
    assert clock.monotonic() - started >= 0.009


async def test_a_sleeper_wakes_at_its_time_and_not_before():
    clock = ManualClock(start_ms=1000)
    sleeper = asyncio.ensure_future(clock.sleep(2.5))
    await clock.settle()
    clock.advance(2499)
    await clock.settle()
    assert not sleeper.done()
    clock.advance(1)
    await clock.settle()
    assert sleeper.done()
    assert clock.now_ms() == 3500
    assert clock.monotonic() == 2.5


async def test_sleepers_wake_in_the_order_of_time_then_of_coming():
    clock = ManualClock()
    woken = []

    async def sleep(name, seconds):
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.ensure_future(sleep(*item)) for item in (("c", 3), ("a", 1), ("b1", 2), ("b2", 2))]
    await clock.settle()
    clock.advance(10_000)
    await asyncio.gather(*tasks)
    assert woken == ["a", "b1", "b2", "c"]


async def test_run_for_lets_a_loop_of_sleeps_run_at_each_of_its_times():
    clock = ManualClock(start_ms=0)
    times = []

    async def tick():
        while True:
            await clock.sleep(0.1)
            times.append(clock.now_ms())

    task = asyncio.ensure_future(tick())
    await clock.run_for(1000)
    assert times == list(range(100, 1001, 100))
    assert clock.now_ms() == 1000
    task.cancel()


async def test_a_cancelled_sleeper_is_forgotten():
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(1))
    await clock.settle()
    assert clock.sleeping == 1
    task.cancel()
    await clock.settle()
    assert clock.sleeping == 0
    clock.advance(5000)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tiny_sleep_needs_time_to_pass():
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(1e-9))
    await clock.settle()
    assert not task.done()
    clock.advance(1)
    await task


async def test_no_sleep_gives_others_a_turn():
    clock = ManualClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() == 0


def test_the_wall_clock_jumps_without_time_passing():
    clock = ManualClock(start_ms=5000)
    clock.jump_wall(-3000)
    assert (clock.now_ms(), clock.monotonic()) == (2000, 0)


async def test_two_runs_are_the_same():
    async def run():
        clock = ManualClock()
        seen = []

        async def worker(name, pause):
            for _ in range(5):
                await clock.sleep(pause)
                seen.append((name, clock.now_ms()))

        tasks = [asyncio.ensure_future(worker(name, pause)) for name, pause in (("x", 0.3), ("y", 0.2), ("z", 0.6))]
        await clock.run_for(5000)
        await asyncio.gather(*tasks)
        return seen

    assert await run() == await run()
