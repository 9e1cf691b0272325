from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.config import StoreConfig
from rocketlake.store.mapped_file import PAGE
from rocketlake.store.mapped_file_list import MappedFileList
from rocketlake.store.queue_flush import CheckpointWriter, QueueFlush, SyncJob


class Parts:
    """Two queues, a checkpoint and a worker that works when told."""

    def __init__(self) -> None:
        self.files = FaultyFiles(MemoryFiles())
        self.queues = [MappedFileList(Path(f"/q{number}"), 8 * PAGE, self.files) for number in (0, 1)]
        self.checkpoint = Checkpoint(self.files, Path("/checkpoint"))
        self.checkpoint.load()
        self.dispatched = 0, 0
        self.refusal: OSError | None = None
        self.clock = ManualClock()
        self.worker = HandWorker()
        self.flush = QueueFlush(
            self.to_flush, lambda: self.dispatched, self.checkpoint, StoreConfig(), self.clock, self.worker
        )

    def to_flush(self, least_pages: int) -> Iterator[SyncJob | None]:
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        for queue in self.queues:
            yield queue.to_flush(least_pages)

    def append(self, queue: int, size: int, store_ms: int) -> None:
        self.queues[queue].append(bytes(size))
        self.dispatched = store_ms, self.dispatched[1] + size


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_a_thorough_round_says_what_was_dispatched_when_it_began(parts: Parts) -> None:
    parts.append(0, 20, 100)
    parts.flush.flush(thorough=True)
    parts.append(1, 20, 900)
    assert parts.checkpoint.logics_ms == 0
    parts.worker.run_all()
    assert (parts.checkpoint.logics_ms, parts.checkpoint.derived_offset) == (100, 20)
    assert parts.queues[0].flushed_offset == 20
    assert parts.queues[1].flushed_offset == 0


def test_a_round_by_pages_promises_nothing(parts: Parts) -> None:
    parts.append(0, 2 * PAGE, 100)
    parts.append(1, PAGE, 200)
    parts.flush.flush(thorough=False)
    parts.worker.run_all()
    assert parts.queues[0].flushed_offset == 2 * PAGE
    assert parts.queues[1].flushed_offset == 0
    assert parts.checkpoint.logics_ms == 0


def test_rounds_do_not_overlap(parts: Parts) -> None:
    parts.append(0, 20, 100)
    parts.flush.flush(thorough=True)
    parts.flush.flush(thorough=True)
    assert len(parts.worker.pending) == 1


def test_a_failed_sync_freezes_the_promise_and_the_other_queues_are_still_synced(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.append(0, 20, 100)
    parts.append(1, 20, 200)
    parts.files.plan.add(Fault("sync", "/q0", times=1))
    parts.flush.flush(thorough=True)
    parts.worker.run_all()
    assert parts.queues[1].flushed_offset == 20
    parts.append(1, 20, 300)
    parts.flush.flush(thorough=True)
    assert not parts.worker.pending
    assert (parts.checkpoint.logics_ms, parts.checkpoint.derived_offset) == (0, -1)
    assert "cannot be synced" in caplog.text


async def test_a_round_over_many_queues_takes_some_at_a_time(parts: Parts) -> None:
    parts.queues = [MappedFileList(Path(f"/q{number}"), 8 * PAGE, parts.files) for number in range(300)]
    for number in range(150, 300):
        parts.append(number, 20, 100 + number)
    parts.flush.flush(thorough=True)
    synced = 0
    while synced < 150:
        await parts.clock.settle()
        assert parts.checkpoint.logics_ms == 0
        assert len(parts.worker.pending) == 1
        parts.worker.run_one()
        now = sum(queue.flushed_offset == 20 for queue in parts.queues)
        assert synced < now <= synced + 100
        synced = now
    await parts.clock.settle()
    assert parts.checkpoint.logics_ms == 399


async def test_a_round_that_is_stopped_promises_nothing(parts: Parts) -> None:
    await parts.flush.start()
    parts.append(0, 20, 100)
    parts.flush.flush(thorough=True)
    await parts.flush.stop()
    parts.worker.run_all()
    assert parts.queues[0].flushed_offset == 20
    assert parts.checkpoint.logics_ms == 0


def test_a_round_that_a_full_disk_ends_is_tried_again(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    parts.append(0, 20, 100)
    parts.refusal = OSError("full")
    parts.flush.flush(thorough=True)
    assert "tried again" in caplog.text
    parts.flush.flush(thorough=True)
    parts.worker.run_all()
    assert parts.checkpoint.logics_ms == 100


async def test_rounds_come_every_second_and_are_thorough_every_minute(parts: Parts) -> None:
    await parts.flush.start()
    parts.append(0, 20, 100)
    await parts.clock.run_for(59_000)
    parts.worker.run_all()
    assert parts.checkpoint.logics_ms == 0
    for _ in range(2):
        await parts.clock.run_for(1000)
        parts.worker.run_all()
    assert parts.checkpoint.logics_ms == 100
    await parts.flush.stop()


async def test_the_checkpoint_is_written_each_second_if_it_changed(parts: Parts) -> None:
    writer = CheckpointWriter(parts.checkpoint, lambda: None, parts.clock, parts.worker)
    await writer.start()
    await parts.clock.run_for(5000)
    assert not parts.worker.pending
    parts.checkpoint.physic_ms = 77
    await parts.clock.run_for(1000)
    parts.worker.run_all()
    assert not parts.checkpoint.changed
    await writer.stop()


async def test_a_checkpoint_that_cannot_be_written_is_tried_again(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    writer = CheckpointWriter(parts.checkpoint, lambda: None, parts.clock, parts.worker)
    parts.checkpoint.physic_ms = 77
    parts.files.plan.add(Fault("pwrite", "checkpoint", times=1))
    writer.write()
    parts.worker.run_all()
    assert "cannot be written" in caplog.text
    writer.write()
    parts.worker.run_all()
    assert not parts.checkpoint.changed


class BrokenJob:
    """A job that makes a mistake."""

    def __init__(self, where: str) -> None:
        self.where = where

    def run(self) -> None:
        if self.where == "run":
            raise ValueError("a mistake")

    def done(self) -> None:
        raise ValueError("a mistake")

    def failed(self, error: Exception) -> None:
        raise AssertionError("the disk did not fail")


@pytest.mark.parametrize("where", ["run", "done"])
def test_a_mistake_of_one_job_ends_neither_the_round_nor_the_next(parts: Parts, where: str) -> None:
    broken: list[SyncJob] = [BrokenJob(where)]
    flush = QueueFlush(
        lambda least: iter([broken.pop() if broken else None, *(queue.to_flush(least) for queue in parts.queues)]),
        lambda: parts.dispatched,
        parts.checkpoint,
        StoreConfig(),
        parts.clock,
        parts.worker,
    )
    parts.append(0, 20, 100)
    flush.flush(thorough=True)
    parts.worker.run_all()
    assert parts.queues[0].flushed_offset == 20
    assert parts.checkpoint.logics_ms == 0  # not all is safe
    parts.append(0, 20, 200)
    flush.flush(thorough=True)
    parts.worker.run_all()
    assert parts.checkpoint.logics_ms == 200


def test_a_look_that_raises_ends_its_round_only(parts: Parts) -> None:
    parts.refusal = ValueError("a mistake")  # type: ignore[assignment]
    parts.append(0, 20, 100)
    parts.flush.flush(thorough=True)
    parts.flush.flush(thorough=True)
    parts.worker.run_all()
    assert parts.checkpoint.logics_ms == 100
