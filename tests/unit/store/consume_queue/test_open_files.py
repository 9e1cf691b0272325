from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.consume_queue.open_files import OpenFiles

FOLDER = Path("/queues/T/0")


def test_no_more_files_are_open_than_allowed() -> None:
    pool = OpenFiles(MemoryFiles(), 2)
    files = [pool.make(FOLDER / str(number), 10) for number in range(5)]
    assert len(pool) == 2
    for number, file in enumerate(files):
        file.pwrite(bytes([number]), 3)
    assert len(pool) == 2
    assert [file.pread(1, 3) for file in files] == [bytes([number]) for number in range(5)]


def test_an_existing_file_is_opened_when_it_is_touched_first() -> None:
    plan = FaultPlan()
    disk = FaultyFiles(MemoryFiles(), plan)
    OpenFiles(disk, 1).make(FOLDER / "a", 10).pwrite(b"x", 0)
    plan.calls.clear()
    file = OpenFiles(disk, 1).existing(FOLDER / "a", 10)
    assert ("open", FOLDER / "a") not in plan.calls
    assert file.pread(2, 0) == b"x\0"
    assert ("open", FOLDER / "a") in plan.calls


def test_the_file_used_longest_ago_gives_way() -> None:
    plan = FaultPlan()
    pool = OpenFiles(FaultyFiles(MemoryFiles(), plan), 2)
    first, second = pool.make(FOLDER / "1", 10), pool.make(FOLDER / "2", 10)
    first.pread(1, 0)
    pool.make(FOLDER / "3", 10)
    plan.calls.clear()
    first.pread(1, 0)
    assert ("open", FOLDER / "1") not in plan.calls
    second.pread(1, 0)
    assert ("open", FOLDER / "2") in plan.calls


def test_a_new_file_is_safe_with_its_folders_after_one_sync() -> None:
    disk = MemoryFiles()
    file = OpenFiles(disk, 1).make(FOLDER / "a", 10)
    file.pwrite(b"x", 0)
    assert not disk.power_cut().exists(FOLDER / "a")
    file.sync()
    assert disk.power_cut().read_bytes(FOLDER / "a") == b"x" + bytes(9)


def test_a_sync_reaches_a_file_that_is_not_open() -> None:
    disk = MemoryFiles()
    pool = OpenFiles(disk, 1)
    file = pool.make(FOLDER / "a", 10)
    file.sync()
    file.pwrite(b"x", 0)
    pool.make(FOLDER / "b", 10)  # closes the first
    file.sync()
    assert disk.power_cut().read_bytes(FOLDER / "a")[:1] == b"x"


def test_a_failed_sync_is_an_error() -> None:
    disk = FaultyFiles(MemoryFiles(), FaultPlan([Fault("sync")]))
    with pytest.raises(OSError):
        OpenFiles(disk, 1).make(FOLDER / "a", 10).sync()


def test_closing_twice_does_nothing() -> None:
    pool = OpenFiles(MemoryFiles(), 1)
    file = pool.make(FOLDER / "a", 10)
    file.close()
    file.close()
    assert len(pool) == 0


def test_a_view_and_a_cut_reach_the_file() -> None:
    file = OpenFiles(MemoryFiles(), 1).make(FOLDER / "a", 10)
    file.pwrite(b"abc", 0)
    assert bytes(file.view()[:3]) == b"abc"
    file.truncate(1)
    file.truncate(10)
    assert file.pread(3, 0) == b"a\0\0"
