"""The log lines about a slow disk and long work, with their figures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode
from rocketlake.store import log_walk
from rocketlake.store.results import PutStatus
from rocketlake.store.slow_work import Progress, SlowDisk
from tests.unit.store.store_world import World, message, put_ok


class SlowPlan(FaultPlan):
    """A disk on which each call of one kind takes its time."""

    def __init__(self, clock: ManualClock, slow_call: str, ms: float) -> None:
        super().__init__()
        self.clock = clock
        self.slow_call = slow_call
        self.ms = ms

    def take(self, call: str, path: Path) -> Fault | None:
        if call == self.slow_call and "commitlog" in path.parts:
            self.clock.advance(self.ms)
        return super().take(call, path)


def slow(world: World, call: str, ms: float) -> None:
    world.files = FaultyFiles(world.disk, SlowPlan(world.clock, call, ms))


async def synced(world: World, *bodies: bytes) -> None:
    store = world.opened[-1]
    for body in bodies:
        put_ok(store, body)
        await world.clock.settle()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    caplog.set_level(logging.INFO, "rocketlake")
    return lambda part: [text for text in caplog.messages if part in text]


@pytest.mark.parametrize(("ms", "lines"), [(500, 0), (700, 1)])
async def test_a_flush_over_500_ms_is_said_with_its_cost_once_in_ten_seconds(
    world: World, said: Callable[[str], list[str]], ms: float, lines: int
) -> None:
    slow(world, "sync", ms)
    store = await world.started(flush_disk_type="SYNC_FLUSH")
    await synced(world, b"one", b"two")
    assert store.flushed_offset == store.max_physical_offset
    assert len(said("slow flush")) == lines
    if lines:
        size = store.max_physical_offset // 2
        assert said("slow flush") == [f"slow flush: 700 ms for {size} bytes, up to {size} of the log"]
        world.clock.advance(10_000)
        await synced(world, b"one")
        assert said("slow flush")[-1].endswith("of the log (and 1 more like this)")


async def test_a_commit_over_500_ms_is_said_with_its_cost(world: World, said: Callable[[str], list[str]]) -> None:
    slow(world, "pwrite", 800)
    store = await world.started(write_pool_enabled=True, write_pool_buffers=2)
    size = put_ok(store, b"one")[0].size
    await world.clock.run_for(500)
    assert said("slow commit") == [f"slow commit: 800 ms for {size} bytes, up to {size} of the log"]


async def test_a_thorough_flush_says_what_is_not_on_disk(world: World, said: Callable[[str], list[str]]) -> None:
    store = await world.started()
    await world.clock.run_for(20_000)
    assert said("thorough flush") == []
    size = put_ok(store, b"one")[0].size
    await world.clock.run_for(10_000)
    assert said("thorough flush: ") == [f"thorough flush: {size} bytes to go, the log is on disk up to 0"]


async def test_a_sync_flush_timeout_names_topic_tags_and_client(world: World, said: Callable[[str], list[str]]) -> None:
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH", sync_flush_timeout_ms=3000)
    told: list[PutStatus] = []
    properties = encode({"TAGS": "paid"})
    result = store.put(message(b"x", "orders", properties=properties, born_host=encode_host("10.0.0.7", 4321)))
    store.when_durable(result, wait=True, done=told.append)
    await world.clock.run_for(3001)
    assert told == [PutStatus.FLUSH_DISK_TIMEOUT]
    (line,) = said("syncFlushTimeout")
    assert line == (
        "not on disk within syncFlushTimeout (3000 ms): 1 messages at 0 of topic orders, tags 'paid',"
        f" from client 10.0.0.7:4321; on disk is the log up to 0 of {result.next_offset}"
    )


async def test_a_long_recovery_says_how_far_it_is(
    world: World, said: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await world.started()
    put_ok(store, *[b"%03d" % number * 60 for number in range(60)])
    end = store.max_physical_offset
    await world.killed()
    world.disk.remove(Path("/store/checkpoint"))

    class Slow(log_walk.LogWalk):
        def _passed(self, *args: object) -> int:
            world.clock.advance(3000)
            return super()._passed(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("rocketlake.store.replay.LogWalk", Slow)
    await world.started()
    lines = said("recovery under way")
    assert len(lines) >= 2
    assert "bytes of the log from 0 on" in lines[0]
    assert [line.split()[3] for line in lines] == sorted((line.split()[3] for line in lines), key=int)
    assert f"{end} of " in said("recovery done")[-1]


async def test_a_long_round_over_the_queues_says_how_far_it_is(
    world: World, said: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await world.started(queue_flush_interval_ms=1000, queue_flush_thorough_interval_ms=1000)
    for number in range(150):
        put_ok(store, b"x", topic=f"T{number}")
    real = store.upkeep.queue_jobs

    def jobs(least_pages: int):  # type: ignore[no-untyped-def]
        for job in real(least_pages):
            world.clock.advance(100)
            yield job

    monkeypatch.setattr(store.upkeep.queue_flush, "_to_flush", jobs)
    await world.clock.run_for(120_000)
    lines = said("thorough flush of the consume queues")
    assert lines[0].startswith("thorough flush of the consume queues, so far: 64 looked at, ")
    assert "so far: 128 looked at, " in lines[1]
    assert any(", done: " in line for line in lines)


def test_the_parts_by_themselves(said: Callable[[str], list[str]]) -> None:
    clock = ManualClock()
    progress, disk = Progress(clock), SlowDisk(clock)
    assert not progress.is_due()
    clock.advance(5000)
    assert progress.is_due()
    assert not progress.is_due()
    assert progress.was_due
    assert progress.seconds == 5
    disk.note_rest(0, 7)
    disk.note("flush", 0.5, 1, 1)
    assert said("") == []
