from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.store.offset_files import OffsetFiles, queue_folders

FOLDER = Path("/log")


def written(disk: Files, *starts: int, size: int = 10, last_size: int = 10) -> None:
    disk.make_dirs(FOLDER)
    for start in starts:
        content = bytes(range(start, start + size))
        disk.write_bytes(FOLDER / f"{start:020d}", content[: last_size if start == starts[-1] else size])


def test_offsets_run_through_the_files_and_reads_end_with_one() -> None:
    disk = MemoryFiles()
    written(disk, 10, 20, 30)
    log = OffsetFiles(FOLDER, disk)
    assert (log.start, log.end, log.file_size) == (10, 40, 10)
    assert log.read(18, 10) == bytes([18, 19])
    assert bytes(log.view(20, 3)) == bytes([20, 21, 22])
    assert log.read(9, 5) == log.read(40, 5) == bytes(log.view(40, 1)) == b""
    assert log.path(25).name == f"{20:020d}"


def test_an_empty_folder_has_nothing() -> None:
    log = OffsetFiles(FOLDER, MemoryFiles())
    assert (log.start, log.end, log.read(0, 10), bytes(log.view(0, 10))) == (0, 0, b"", b"")
    assert log.file_start(5) == 0


def test_what_lies_before_a_gap_is_left_out() -> None:
    disk = MemoryFiles()
    written(disk, 0, 10, 30, 40)
    log = OffsetFiles(FOLDER, disk)
    assert (log.start, log.end) == (30, 50)


def test_a_cut_off_last_file_is_read_as_far_as_it_goes() -> None:
    disk = MemoryFiles()
    written(disk, 0, 10, last_size=4)
    log = OffsetFiles(FOLDER, disk)
    assert log.end == 14
    assert log.read(12, 10) == bytes([12, 13])


def test_empty_and_strange_files_are_passed_over() -> None:
    disk = MemoryFiles()
    written(disk, 0)
    disk.write_bytes(FOLDER / f"{10:020d}", b"")
    disk.write_bytes(FOLDER / "notes", b"x")
    assert OffsetFiles(FOLDER, disk).end == 10


def test_new_files_are_found_by_looking_again() -> None:
    disk = MemoryFiles()
    written(disk, 0)
    log = OffsetFiles(FOLDER, disk)
    written(disk, 0, 10)
    assert log.end == 10
    log.refresh()
    assert log.end == 20


def test_a_file_dropped_meanwhile_reads_as_nothing() -> None:
    disk = MemoryFiles()
    written(disk, 0, 10)
    log = OffsetFiles(FOLDER, disk)
    disk.remove(FOLDER / f"{0:020d}")
    assert log.read(0, 5) == b""
    assert log.read(10, 2) == bytes([10, 11])


def test_files_are_opened_read_only_and_few_at_a_time() -> None:
    disk = MemoryFiles()
    written(disk, *range(0, 200, 10))
    plan = FaultPlan()
    log = OffsetFiles(FOLDER, FaultyFiles(disk, plan))
    for start in range(0, 200, 10):
        assert log.read(start, 1) == bytes([start])
    assert len(log._open) <= 8
    file = next(iter(log._open.values()))
    with pytest.raises(OSError):
        file.pwrite(b"x", 0)


def test_queues_are_folders_named_by_numbers() -> None:
    disk = MemoryFiles()
    for name in ("T/0", "T/11", "T/x", "U/3"):
        disk.make_dirs(FOLDER / name)
    disk.write_bytes(FOLDER / "file", b"")
    disk.write_bytes(FOLDER / "T" / "5", b"")
    assert [(topic, queue_id) for topic, queue_id, _path in queue_folders(FOLDER, disk)] == [
        ("T", 0),
        ("T", 11),
        ("U", 3),
    ]
