from __future__ import annotations

import asyncio
import logging

from rocketlake.base.service import Service


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


async def test_a_failing_task_is_logged_by_name_and_reported(caplog):
    service = Service("flush")
    failures = []
    service.on_failure = failures.append

    async def work():
        raise ValueError("disk gone")

    with caplog.at_level(logging.ERROR):
        task = service.spawn("loop", work())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert "flush/loop failed: disk gone" in caplog.text
    assert [str(error) for error in failures] == ["disk gone"]
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
