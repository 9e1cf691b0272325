from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.store.mapped_file import PAGE
from rocketlake.store.mapped_file_list import MappedFileList

LOG = Path("/store/log")


def new_list(files: MemoryFiles | FaultyFiles, size: int = 40) -> MappedFileList:
    log = MappedFileList(LOG, size, files)
    log.load()
    return log


def filled(files: MemoryFiles | FaultyFiles, entries: int, size: int = 40) -> MappedFileList:
    log = new_list(files, size)
    for number in range(entries):
        log.append(number.to_bytes(20, "big"))
    return log


def test_files_are_named_by_their_first_offset() -> None:
    files = MemoryFiles()
    filled(files, 5)
    assert files.list_dir(LOG) == ["00000000000000000000", "00000000000000000040", "00000000000000000080"]


def test_offsets_run_through_the_files() -> None:
    log = filled(MemoryFiles(), 5)
    assert (log.min_offset, log.max_offset, log.wrote_offset) == (0, 100, 100)
    assert bytes(log.view(60, 20) or b"") == (3).to_bytes(20, "big")
    assert log.view(30, 20) is None  # would cross a file
    assert log.view(100, 1) is None
    assert log.view(-20, 20) is None
    found = log.find(119)
    assert found is not None
    assert found.start == 80
    assert log.find(120) is None


def test_an_empty_list_has_offset_zero() -> None:
    log = new_list(MemoryFiles())
    assert (log.min_offset, log.max_offset, log.wrote_offset, log.flushed_offset) == (0, 0, 0, 0)
    assert log.find(0) is None
    assert not log.flush()


def test_the_first_file_starts_at_the_file_border_before_the_hint() -> None:
    log = new_list(MemoryFiles())
    assert log.file_for_append(95).start == 80
    assert log.flushed_offset == 80


def test_loaded_files_count_as_full() -> None:
    files = MemoryFiles()
    filled(files, 5)
    log = new_list(files)
    assert (log.max_offset, log.flushed_offset) == (120, 120)


def test_a_file_of_another_length_is_named() -> None:
    files = MemoryFiles()
    filled(files, 3)
    with pytest.raises(StoreError, match=r"40 bytes long, the setting says 60.*00000000000000000000"):
        new_list(files, 60)


@pytest.mark.parametrize("length", [0, 1, 39])
def test_a_last_file_that_was_not_made_to_its_end_is_removed(length: int) -> None:
    files = MemoryFiles()
    filled(files, 2)
    files.open(LOG / "00000000000000000040", size=length, create=True)
    assert new_list(files).max_offset == 40
    assert files.list_dir(LOG) == ["00000000000000000000"]


def test_a_short_last_file_with_something_in_it_is_named() -> None:
    files = MemoryFiles()
    filled(files, 2)
    files.write_bytes(LOG / "00000000000000000040", bytes(30) + b"x")
    with pytest.raises(StoreError, match=r"31 bytes long.*00000000000000000040"):
        new_list(files)


def test_a_gap_between_files_is_named() -> None:
    files = MemoryFiles()
    filled(files, 5)
    files.remove(LOG / "00000000000000000040")
    with pytest.raises(StoreError, match="00000000000000000040 should come before"):
        new_list(files)


def test_a_foreign_file_is_named() -> None:
    files = MemoryFiles()
    filled(files, 1)
    files.write_bytes(LOG / "notes.txt", b"x")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        new_list(files)


def test_flush_moves_the_flushed_offset_over_file_borders() -> None:
    log = filled(MemoryFiles(), 5)
    assert log.flush()
    assert log.flushed_offset == 100
    assert not log.flush()
    log.append(bytes(20))
    assert log.flush()
    assert log.flushed_offset == 120


def test_flush_by_pages_takes_full_files_and_leaves_a_short_tail() -> None:
    log = MappedFileList(LOG, 4 * PAGE, MemoryFiles())
    for _ in range(5):
        log.append(bytes(PAGE))
    assert log.flush(least_pages=2)
    assert log.flushed_offset == 4 * PAGE
    log.append(bytes(PAGE))
    assert log.flush(least_pages=2)
    assert log.flushed_offset == 6 * PAGE


def test_bytes_appended_after_a_job_was_made_are_not_flushed_by_it() -> None:
    log = filled(MemoryFiles(), 1)
    job = log.to_flush()
    log.append(bytes(20))
    assert job is not None
    job.run()
    job.done()
    assert log.flushed_offset == 20


def test_a_failed_sync_stops_the_flushed_offset_for_ever_and_is_not_tried_again() -> None:
    files = FaultyFiles(MemoryFiles())
    log = filled(files, 3)
    files.plan.add(Fault("sync", times=1))
    with pytest.raises(StoreError, match=r"sync of .* failed"):
        log.flush()
    syncs = [call for call, _path in files.plan.calls if call == "sync"]
    log.append(bytes(20))
    assert log.to_flush() is None
    with pytest.raises(StoreError, match=r"sync of .* failed"):
        log.flush()
    assert log.flushed_offset == 0
    assert [call for call, _path in files.plan.calls if call == "sync"] == syncs


@pytest.mark.parametrize(
    ("cut", "max_offset", "names"),
    [(100, 100, 3), (90, 90, 3), (80, 80, 2), (61, 61, 2), (40, 40, 1), (0, 0, 1), (500, 100, 3)],
)
def test_truncate_removes_later_files_and_zeroes_the_rest(cut: int, max_offset: int, names: int) -> None:
    files = MemoryFiles()
    log = filled(files, 5)
    log.flush()
    log.truncate(cut)
    assert log.max_offset == max_offset
    assert log.flushed_offset == max_offset
    assert len(files.list_dir(LOG)) == names
    last = log.last
    assert last is not None
    assert not any(last.view[last.wrote :])
    assert log.append(b"\1" * 20) == max_offset if max_offset % 20 == 0 and max_offset % 40 else True


def test_dropping_never_takes_the_last_file() -> None:
    files = MemoryFiles()
    log = filled(files, 5)
    log.flush()
    dropped = log.drop_before(85)
    assert [mapped.start for mapped in dropped] == [0, 40]
    assert log.min_offset == 80
    assert log.drop_before(10_000) == []
    for mapped in dropped:
        mapped.remove()
    assert new_list(files).min_offset == 80


def test_the_folder_is_synced_before_a_new_file_is_used() -> None:
    files = MemoryFiles()
    log = filled(files, 3)
    log.flush()
    after = new_list(files.power_cut())
    assert bytes(after.view(40, 20) or b"") == (2).to_bytes(20, "big")


def test_a_file_that_is_not_flushed_is_not_dropped() -> None:
    log = filled(MemoryFiles(), 2)
    log.flush()
    for _ in range(3):
        log.append(bytes(20))
    assert [mapped.start for mapped in log.drop_first(10)] == [0]
    log.flush()
    assert [mapped.start for mapped in log.drop_first(10)] == [40]


def test_the_sync_of_a_file_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    log = MappedFileList(tmp_path / "log", 40, PosixFiles())
    log.append(bytes(20))
    job = log.to_flush()
    assert job is not None
    log.destroy()
    job.run()


def test_an_end_with_zeros_behind_touches_no_file() -> None:
    plan = FaultPlan()
    files = FaultyFiles(MemoryFiles(), plan)
    filled(files, 5).close()
    loaded = new_list(files)
    plan.calls.clear()
    assert not loaded.ends_at(80)  # the last file would have to go
    assert not loaded.ends_at(90)  # something lies behind
    assert loaded.wrote_offset == 120
    assert loaded.ends_at(100)
    assert (loaded.wrote_offset, loaded.max_offset, loaded.flushed_offset) == (100, 100, 100)
    assert plan.calls == []
