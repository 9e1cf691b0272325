"""Tails of queues whose files a worker makes or opens: they wait in memory, then they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.late_files import READY_MAX, FileLate, LateFiles, NotSynced

FOLDER = Path("/consumequeue")


class World:
    """A table that serves; its files come when `worker` runs."""

    def __init__(self, *, tails: int = 200, open_files_max: int = 2) -> None:
        self.files = FaultyFiles(MemoryFiles())
        self.worker = HandWorker()
        self.late = LateFiles(self.worker)
        self.late.serve()
        self.table = ConsumeQueueTable(
            FOLDER,
            self.files,
            file_size=100,
            open_files_max=open_files_max,
            tail_bytes_max=tails,
            late=self.late,
        )
        self.end = 0
        self.counts: dict[int, int] = {}

    def put(self, queue_id: int, count: int = 1) -> None:
        for _ in range(count):
            offset = self.counts.setdefault(queue_id, 0)
            assert self.table.append("T", queue_id, offset, self.end, 10, 0)
            self.counts[queue_id] += 1
            self.end += 10

    def check(self) -> None:
        """Every entry can be read, whether it is in a file or not."""
        for queue_id, count in self.counts.items():
            queue = self.table.find("T", queue_id)
            assert queue is not None
            read = []
            while len(read) < count:
                read += queue.read(len(read), 3)
            assert [size for _physical, size, _tag in read] == [10] * count
            assert queue.max_offset == count

    def write_tails(self) -> int:
        """Until all tails are in files; how often the worker had to come."""
        waits = 0
        while True:
            try:
                if self.table.write_tails():
                    return waits
            except NotSynced:
                self.table.flush()
            except FileLate:
                assert self.worker.pending
                self.worker.run_all()
                waits += 1

    @property
    def held(self) -> int:
        return sum(len(queue.tail) for queue in self.table)


def test_a_tail_longer_than_a_file_is_written_to_several_when_they_come() -> None:
    world = World(tails=10_000)
    world.put(0, 12)
    assert (world.held, world.files.list_dir(FOLDER / "T" / "0")) == (240, [])
    world.check()
    assert world.write_tails() == 3
    assert (world.held, len(world.files.list_dir(FOLDER / "T" / "0"))) == (0, 3)
    world.check()


def test_many_queues_ask_for_their_files_in_one_call_of_the_worker() -> None:
    world = World()
    for queue_id in range(11):
        world.put(queue_id)
    made_singly = len(world.worker.pending)
    assert made_singly <= 11
    world.worker.run_all()
    before = world.held
    for queue_id in range(11):
        world.put(queue_id)
    assert len(world.worker.pending) <= 2
    world.worker.run_all()
    assert world.held < before + 11 * 20
    world.check()


def test_a_worker_that_does_not_come_makes_the_dispatch_wait_in_the_end() -> None:
    world = World()
    with pytest.raises(FileLate):
        world.put(0, 10_000)
    assert world.held > 200
    world.worker.run_all()
    world.check()


def test_a_file_that_cannot_be_made_is_an_error_and_is_made_later() -> None:
    world = World()
    world.files.plan.add(Fault("open", times=1))
    world.put(0)
    world.worker.run_all()
    assert "Input/output" in world.late.error
    world.late.retry()
    world.worker.run_all()
    assert world.late.error == ""
    assert world.table.write_tails()
    world.check()


def test_a_tail_that_the_disk_refuses_does_not_keep_the_others_in_memory() -> None:
    world = World(tails=200, open_files_max=1)
    for queue_id in (*range(10), 9, 9):
        world.put(queue_id)
        world.worker.run_all()
    assert world.write_tails() >= 0
    for queue_id in (0, 9, *range(1, 8)):  # the file of queue 9 is the open one
        world.put(queue_id)
    world.files.plan.add(Fault("pwrite", "/9/", times=1))
    with pytest.raises(OSError, match="Input/output"):
        world.put(8, 10)
    world.worker.run_all()
    for _ in range(3):
        world.put(8, 10)
        world.worker.run_all()
    assert world.held <= 200 + 10 * 20
    world.check()


def test_the_file_of_a_deleted_queue_is_closed_and_not_used() -> None:
    world = World()
    world.put(0)
    assert world.table.forget_topic("T")
    world.counts.clear()
    world.worker.run_all()
    assert not world.late.is_asked(FOLDER / "T" / "0" / "00000000000000000000")
    world.put(0, 3)
    world.check()


@pytest.mark.long
def test_thousands_of_queues_hold_few_open_files_while_their_tails_wait() -> None:
    world = World(tails=1_000_000, open_files_max=10)
    for queue_id in range(1000):
        world.put(queue_id)
    world.worker.run_all()
    assert len(world.late.unused()) == READY_MAX
    assert world.write_tails() <= 1 + 1000 * 2 // READY_MAX
    assert world.held == 0
    assert len(world.late.unused()) <= READY_MAX
    world.check()


def test_a_busy_queue_does_not_put_off_a_round_for_ever() -> None:
    world = World(tails=1_000_000)
    world.put(0, 12)
    with pytest.raises(FileLate):
        world.table.write_tails()
    for _ in range(10):
        world.put(0, 5)  # a whole file's entries, before the next file is ready
        world.worker.run_all()
        try:
            if world.table.write_tails():
                break
        except NotSynced:
            world.table.flush()
        except FileLate:
            continue
    else:
        pytest.fail("the tail of the first call was never said to be in files")
    assert world.held > 0
    world.check()


def test_one_call_writes_some_tails_only() -> None:
    world = World(tails=1_000_000, open_files_max=1000)
    for queue_id in range(300):
        world.put(queue_id)
    world.write_tails()
    for queue_id in range(300):
        world.put(queue_id)
    held, calls = world.held, 1
    while not world.table.write_tails():
        assert held - world.held <= READY_MAX * 20
        held, calls = world.held, calls + 1
    assert calls > 2
    assert world.held == 0
