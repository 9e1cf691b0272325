from __future__ import annotations

import asyncio
import logging

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service, stop_each


async def test_stop_cancels_and_awaits_every_task():
    service = Service("s")
    await service.start()
    ended = []

    async def work(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    for name in ("a", "b"):
        service.spawn(name, work(name))
    await asyncio.sleep(0)
    await service.stop()
    assert sorted(ended) == ["a", "b"]
    assert not service.is_running
    await service.stop()


async def test_a_failing_task_is_logged_by_name(caplog):
    service = Service("flush")

    async def work():
        raise ValueError("disk gone")

    with caplog.at_level(logging.ERROR):
        task = service.spawn("loop", work())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert "flush/loop failed: disk gone" in caplog.text
    await service.stop()


async def test_a_task_that_ends_well_leaves_nothing_behind():
    service = Service()
    assert service.name == "Service"

    async def work():
        pass

    await service.spawn("short", work())
    await asyncio.sleep(0)
    assert not service._tasks


async def test_a_task_may_stop_its_own_service():
    service = Service("s")
    await service.start()
    stopped = []

    async def work():
        await service.stop()
        stopped.append(True)

    await service.spawn("suicide", work())
    assert stopped == [True]


async def test_a_task_spawned_while_stopping_is_cancelled_too():
    service = Service("s")
    ended = []

    async def late():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("late")

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            service.spawn("late", late())
            await asyncio.sleep(0)

    service.spawn("work", work())
    await asyncio.sleep(0)
    await service.stop()
    assert ended == ["late"]


class Duties:
    """A service on a clock moved by hand, whose duty raises what it is told."""

    def __init__(self):
        self.clock = ManualClock()
        self.service = Service("s", self.clock)
        self.raises = []
        self.rounds = []

    def work(self):
        if self.raises:
            raise self.raises.pop(0)
        self.rounds.append(self.clock.monotonic())

    async def work_on(self):
        await self.clock.sleep(1)
        self.work()


@pytest.mark.parametrize("kind", ["every", "keep", "coroutine"])
async def test_a_duty_goes_on_after_an_unexpected_exception(kind, caplog):
    it = Duties()
    it.raises = [ValueError("a mistake"), KeyError("another")]
    async with it.service:
        if kind == "every":
            it.service.every("work", 1, it.work)
        elif kind == "keep":
            it.service.keep("work", it.work_on)
        else:
            it.service.every("work", 0, it.work_on)
        await it.clock.run_for(5000)
        assert it.rounds
        assert it.service.duties["work"].rounds == len(it.rounds)
        assert it.service.duties["work"].failures == 0
    assert "s/work failed, it is tried again in 0.1 s: ValueError('a mistake')" in caplog.text
    assert "Traceback" in caplog.text
    assert not it.service.duties


async def test_a_duty_that_fails_without_end_backs_off_and_turns_the_health_red(caplog):
    it = Duties()
    it.raises = [ValueError("a mistake")] * 40
    async with it.service:
        it.service.every("work", 0.01, it.work)
        await it.clock.run_for(250)
        assert it.service.health.is_green
        await it.clock.run_for(60_000)
        assert len(it.raises) > 20, "it backs off"
        reason = it.service.health.troubles["s/work"].reason
        assert reason == "fails again and again, last with ValueError('a mistake')"
        assert sum("it is tried again" in record.message for record in caplog.records) <= 2
        it.raises.clear()
        await it.clock.run_for(11_000)
        assert it.service.health.is_green
        assert it.rounds


async def test_a_duty_that_is_stopped_in_its_trouble_does_not_claim_to_work(caplog):
    it = Duties()
    it.raises = [ValueError("a mistake")] * 40
    async with it.service:
        it.service.every("work", 0.01, it.work)
        await it.clock.run_for(60_000)
        assert not it.service.health.is_green
    assert it.service.health.is_green
    assert "works again" not in caplog.text
    assert "health: s/work was stopped in its trouble" in caplog.text


async def test_a_cancelled_future_inside_does_not_end_a_duty():
    it = Duties()
    stray = asyncio.get_running_loop().create_future()
    stray.cancel()

    async def work():
        if not it.rounds:
            it.rounds.append(0)
            await stray
        it.work()
        await it.clock.sleep(1)

    async with it.service:
        it.service.keep("work", work)
        await it.clock.run_for(1500)
        assert len(it.rounds) > 1


async def test_a_duty_ends_when_its_task_is_cancelled():
    it = Duties()
    async with it.service:
        task = it.service.every("work", 1, it.work)
        await it.clock.settle()
        task.cancel()
        await it.clock.run_for(3000)
        assert task.cancelled()
        assert not it.rounds
        assert not it.service.duties


async def test_a_round_that_waits_for_nothing_does_not_keep_the_loop_to_itself():
    it = Duties()

    async def work():
        it.rounds.append(0)

    async with it.service:
        it.service.keep("work", work)
        await it.clock.settle()
        assert it.rounds


async def test_a_task_that_something_inside_cancelled_is_logged(caplog):
    service = Service("s")
    stray = asyncio.get_running_loop().create_future()
    stray.cancel()

    async def work():
        await stray

    async with service:
        await asyncio.wait([service.spawn("work", work())])
        await asyncio.sleep(0)
        assert "s/work ended: a future that it awaited was cancelled" in caplog.text


async def test_parts_share_the_health_of_the_whole():
    leaf, branch, whole = Service("leaf"), Service("branch"), Service("whole")
    branch.adopt(leaf)
    whole.adopt(branch)
    leaf.health.set("leaf", "broken")
    assert list(whole.health.troubles) == ["leaf"]
    assert [service.name for service in whole.services()] == ["whole", "branch", "leaf"]


async def test_each_is_stopped_whatever_the_others_raise(caplog):
    stopped = []

    async def broken():
        raise KeyError("a mistake")

    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await stop_each(broken, lambda: stopped.append("first"), cancelled, lambda: stopped.append("last"))
    assert stopped == ["first", "last"]
    assert "could not be stopped cleanly" in caplog.text
