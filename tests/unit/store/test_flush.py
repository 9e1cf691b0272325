from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker
from rocketlake.store.config import StoreConfig
from rocketlake.store.durability import Demands, Durability, Stage
from rocketlake.store.flush import LogSync, PoolCommit, Soon, TimedFlush
from rocketlake.store.mapped_file import PAGE
from rocketlake.store.mapped_file_list import MappedFileList
from rocketlake.store.slow_work import SlowDisk


class Parts:
    """A log with a sync that ends when told."""

    def __init__(self) -> None:
        self.files = FaultyFiles(MemoryFiles())
        self.log = MappedFileList(Path("/log"), 64 * PAGE, self.files)
        self.worker = HandWorker()
        self.clock = ManualClock()
        self.store_ms = 0
        self.at_look: Callable[[], object] | None = None
        """Done once, when the loop has looked at the sync that waits and before it changes it."""
        self.durability = Durability(lambda: self.log.max_offset, self.clock)
        self.sync = LogSync(self.log, self.worker, self.durability, self.last_store_ms, SlowDisk(self.clock))
        self.told: list[tuple[str, bool]] = []

    def last_store_ms(self) -> int:
        at_look, self.at_look = self.at_look, None
        if at_look is not None:
            at_look()
        return self.store_ms

    def append(self, size: int, store_ms: int = 1) -> int:
        self.log.append(bytes(size))
        self.store_ms = store_ms
        return self.log.wrote_offset

    def tell(self, name: str):  # type: ignore[no-untyped-def]
        return lambda reached: self.told.append((name, reached))

    def wait(self, name: str, timeout_ms: int) -> None:
        """A sender appends, and waits for the sync."""
        self.durability.when_durable(
            self.append(10), {Stage.FLUSHED: timeout_ms}, lambda late: self.told.append((name, not late))
        )

    @property
    def syncs(self) -> int:
        return sum(1 for call, path in self.files.plan.calls if call == "sync" and path.parent == Path("/log"))


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.append(PAGE)
    parts.sync.start()
    parts.worker.run_all()
    parts.files.plan.calls.clear()
    return parts


# -- one sync at a time ------------------------------------------------------------------------------------------------


def test_a_position_counts_as_flushed_only_after_its_sync(parts: Parts) -> None:
    parts.append(100)
    parts.sync.start()
    assert parts.log.flushed_offset == PAGE
    parts.worker.run_all()
    assert parts.log.flushed_offset == PAGE + 100


def test_the_next_sync_begins_before_the_loop_has_heard_of_the_last_one(parts: Parts) -> None:
    first = parts.append(100)
    parts.sync.start()
    parts.worker.call_one()
    second = parts.append(100)
    parts.sync.start()
    parts.worker.call_one()
    assert parts.log.flushed_offset == PAGE
    parts.worker.report_one()
    assert parts.log.flushed_offset == first
    parts.worker.report_one()
    assert parts.log.flushed_offset == second
    assert parts.syncs == 2


def test_a_sync_that_waits_for_the_disk_takes_along_what_comes_meanwhile(parts: Parts) -> None:
    for _ in range(3):
        end = parts.append(100)
        parts.sync.start()
    assert len(parts.worker.pending) == 1
    parts.worker.run_one()
    assert parts.log.flushed_offset == end
    assert parts.syncs == 1


def test_a_sync_that_has_begun_takes_nothing_along(parts: Parts) -> None:
    end = parts.append(100)
    parts.sync.start()
    parts.worker.call_one()
    parts.append(100)
    parts.sync.start()
    parts.worker.report_one()
    assert parts.log.flushed_offset == end


def test_what_a_sync_missed_because_it_began_just_then_gets_another_one(parts: Parts) -> None:
    first = parts.append(100)
    parts.sync.start()
    second = parts.append(100)
    parts.at_look = parts.worker.call_one
    parts.sync.start()
    parts.worker.report_one()
    assert parts.log.flushed_offset == first
    parts.worker.run_all()
    assert parts.log.flushed_offset == second


def test_a_sync_given_before_the_last_one_failed_does_not_begin(parts: Parts) -> None:
    for name in "ab":
        parts.durability.flushed.wait(parts.append(100), parts.tell(name), 1e9)
        parts.sync.start()
        if name == "a":
            parts.files.plan.add(Fault("sync", times=1, error=errno.EIO))
            parts.worker.call_one()
    parts.worker.call_one()
    parts.worker.report_one()
    parts.worker.report_one()
    assert parts.syncs == 1
    assert parts.told == [("a", False), ("b", False)]
    assert parts.log.flushed_offset == PAGE
    assert "Input/output error" in parts.sync.failure


def test_the_safe_store_time_is_that_of_a_sync_that_left_nothing_behind(parts: Parts) -> None:
    assert parts.sync.safe_store_ms == 1
    parts.append(100, store_ms=500)
    parts.sync.start()
    parts.append(100, store_ms=900)
    parts.worker.run_all()
    assert parts.sync.safe_store_ms == 500


def test_readers_find_a_message_before_its_sender_is_told(parts: Parts) -> None:
    parts.durability.demand(Demands(reads=(Stage.FLUSHED,)))
    parts.durability.on_readable = lambda: parts.told.append(("dispatch", True))
    end = parts.append(100)
    parts.durability.flushed.wait(end, parts.tell("sender"), 1e9)
    parts.sync.start()
    parts.worker.run_all()
    assert parts.told == [("dispatch", True), ("sender", True)]


def test_a_failed_sync_tells_all_waiters_and_is_never_repeated(parts: Parts) -> None:
    end = parts.append(100)
    parts.durability.flushed.wait(end, parts.tell("a"), 1e9)
    parts.files.plan.add(Fault("sync", times=1, error=errno.EIO))
    parts.sync.start()
    parts.worker.run_all()
    assert parts.told == [("a", False)]
    assert parts.log.flushed_offset == PAGE
    assert "sync of /log/00000000000000000000 failed" in parts.sync.failure
    parts.append(100)
    parts.sync.start()
    assert not parts.worker.pending
    assert parts.syncs == 1


@pytest.mark.parametrize(("size", "pwrites"), [(100, 2), (16 * PAGE, 1)])
def test_only_small_syncs_have_zeros_written_ahead(parts: Parts, size: int, pwrites: int) -> None:
    parts.sync.zero_step = 64 * PAGE
    parts.append(size)
    parts.sync.start()
    assert [call for call, _ in parts.files.plan.calls].count("pwrite") == pwrites


def test_a_disk_too_full_for_zeros_is_told_by_an_append_not_by_a_sync(parts: Parts) -> None:
    parts.sync.zero_step = 64 * PAGE
    end = parts.append(100)
    parts.files.plan.add(Fault("pwrite", error=errno.ENOSPC))
    parts.sync.start()
    parts.worker.run_all()
    assert parts.log.flushed_offset == end
    with pytest.raises(OSError, match="No space"):
        parts.append(100)


# -- group commit ------------------------------------------------------------------------------------------------------


async def test_all_senders_of_one_turn_share_a_sync(parts: Parts) -> None:
    soon = Soon(parts.sync.start)
    await parts.durability.start()
    for name in "abc":
        parts.wait(name, 5000)
        soon.ask()
    await parts.clock.settle()
    assert len(parts.worker.pending) == 1
    parts.worker.run_all()
    assert parts.told == [("a", True), ("b", True), ("c", True)]
    assert parts.syncs == 1
    await parts.durability.stop()


async def test_senders_that_come_during_a_sync_share_the_next(parts: Parts) -> None:
    soon = Soon(parts.sync.start)
    await parts.durability.start()
    parts.wait("a", 5000)
    soon.ask()
    await parts.clock.settle()
    parts.worker.call_one()
    for name in "bc":
        parts.wait(name, 5000)
        soon.ask()
        await parts.clock.settle()
    parts.worker.report_one()
    assert parts.told == [("a", True)]
    parts.worker.run_one()
    assert parts.told == [("a", True), ("b", True), ("c", True)]
    assert parts.syncs == 2
    await parts.durability.stop()


async def test_a_slow_sync_times_out_at_five_seconds_and_later_senders_wait_on(parts: Parts) -> None:
    soon = Soon(parts.sync.start)
    await parts.durability.start()
    parts.wait("a", 5000)
    soon.ask()
    await parts.clock.run_for(1000)
    parts.worker.call_one()
    parts.wait("b", 5000)
    soon.ask()
    await parts.clock.run_for(3999)
    assert parts.told == []
    await parts.clock.run_for(1)
    assert parts.told == [("a", False)]
    parts.worker.report_one()
    parts.worker.run_all()
    assert parts.told == [("a", False), ("b", True)]
    await parts.durability.stop()


async def test_after_a_failed_sync_a_sender_is_told_at_once(parts: Parts) -> None:
    parts.append(10)
    parts.files.plan.add(Fault("sync"))
    parts.sync.start()
    parts.worker.run_all()
    parts.wait("late", 5000)
    assert parts.told == [("late", False)]


# -- timed flush -------------------------------------------------------------------------------------------------------


async def test_the_timed_flush_waits_for_its_pages_and_is_thorough_now_and_then(parts: Parts) -> None:
    config = StoreConfig(flush_interval_ms=500, flush_least_pages=4, flush_thorough_interval_ms=10_000)
    flush = TimedFlush(parts.sync, config, parts.clock)
    await flush.start()
    parts.append(PAGE)
    await parts.clock.run_for(9500)
    assert not parts.worker.pending
    await parts.clock.run_for(500)
    parts.worker.run_all()
    assert parts.log.flushed_offset == 2 * PAGE
    parts.append(4 * PAGE)
    await parts.clock.run_for(499)
    assert not parts.worker.pending
    await parts.clock.run_for(1)
    assert len(parts.worker.pending) == 1
    await flush.stop()


@pytest.mark.parametrize(("timed", "pending"), [(True, 0), (False, 1)])
async def test_a_wake_counts_only_for_the_real_time_flush(parts: Parts, timed: bool, pending: int) -> None:
    flush = TimedFlush(parts.sync, StoreConfig(flush_timed=timed, flush_least_pages=1), parts.clock)
    await flush.start()
    parts.append(PAGE)
    flush.wake()
    await parts.clock.settle()
    assert len(parts.worker.pending) == pending
    await flush.stop()


# -- write pool --------------------------------------------------------------------------------------------------------


async def test_the_pool_is_committed_by_pages_thoroughly_and_when_woken(parts: Parts) -> None:
    asked: list[int] = []
    config = StoreConfig(commit_interval_ms=200, commit_least_pages=4, commit_thorough_interval_ms=400)
    commit = PoolCommit(asked.append, config, parts.clock)
    await commit.start()
    await parts.clock.run_for(800)
    assert asked == [4, 0, 4, 0]
    commit.wake()
    commit.wake()
    await parts.clock.settle()
    assert asked == [4, 0, 4, 0, 4]
    await commit.stop()


async def test_a_commit_that_fails_is_tried_again(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    results = [OSError(errno.ENOSPC, "full"), None]

    def commit_once(_pages: int) -> None:
        error = results.pop(0)
        if error is not None:
            raise error

    commit = PoolCommit(commit_once, StoreConfig(commit_interval_ms=200), parts.clock)
    await commit.start()
    await parts.clock.run_for(400)
    assert results == []
    assert "tried again" in caplog.text
    await commit.stop()
