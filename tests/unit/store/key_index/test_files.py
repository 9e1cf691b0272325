from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.store.key_index.files import KeyIndex

FOLDER = Path("/store/index")
START_MS = 1_700_000_000_000
FOREVER = 2**62


def new_index(disk: Files, clock: ManualClock | None = None, *, entries: int = 10) -> KeyIndex:
    return KeyIndex(FOLDER, disk, clock or ManualClock(START_MS), slots=13, entries_max=entries)


def reopened(disk: Files, *, clean: bool = True, index_ms: int = 0) -> KeyIndex:
    index = new_index(disk)
    index.load(last_exit_ok=clean, index_ms=index_ms)
    return index


def filled(disk: Files, count: int) -> KeyIndex:
    index = new_index(disk)
    for number in range(count):
        put(index, number)
    return index


def put(index: KeyIndex, number: int) -> None:
    """Record `number`, with a key of its own, at number * 100, stored at second number."""
    index.put([f"T#{number}"], number * 100, START_MS + number * 1000)


def found(index: KeyIndex, count: int) -> list[int]:
    """The numbers below `count` that are found at their place."""
    return [number for number in range(count) if number * 100 in index.find(f"T#{number}", 99, 0, FOREVER)]


def test_keys_are_found_over_all_files() -> None:
    disk = MemoryFiles()
    index = filled(disk, 30)
    assert len(disk.list_dir(FOLDER)) == 4
    assert found(index, 30) == list(range(30))
    assert index.find("T#31", 99, 0, FOREVER) == []
    assert (index.last_ms, index.last_physical_offset) == (START_MS + 29_000, 2900)


def test_an_empty_index_finds_nothing_and_needs_no_file() -> None:
    disk = MemoryFiles()
    index = reopened(disk)
    assert index.find("T#1", 10, 0, FOREVER) == []
    assert (index.last_ms, index.last_physical_offset) == (0, 0)
    index.put([], 100, START_MS)
    index.flush()
    assert disk.list_dir(FOLDER) == []


def test_hits_come_newest_first_and_end_at_the_asked_count() -> None:
    index = new_index(MemoryFiles())
    for number in range(25):
        index.put(["T#same"], number * 100, START_MS + number * 1000)
    assert index.find("T#same", 4, 0, FOREVER) == [2400, 2300, 2200, 2100]
    assert index.find("T#same", 99, 0, FOREVER) == [number * 100 for number in reversed(range(25))]
    assert index.find("T#same", 99, START_MS + 3000, START_MS + 5000) == [500, 400, 300]


def test_a_record_is_put_once_however_often_it_is_dispatched() -> None:
    index = filled(MemoryFiles(), 12)
    for number in range(11):
        put(index, number)
    assert sum(file.count - 1 for file in index.files) == 12


def test_the_newest_record_dispatched_again_gets_only_the_keys_it_lacks() -> None:
    index = new_index(MemoryFiles())
    put(index, 0)
    index.put(["T#a"], 100, START_MS)
    index.put(["T#a", "T#b", "T#b"], 100, START_MS)
    index.put(["T#a", "T#b", "T#b"], 100, START_MS)
    assert sum(file.count - 1 for file in index.files) == 4


def test_a_record_with_a_key_twice_is_found_once() -> None:
    index = new_index(MemoryFiles())
    for number in range(8):  # the ninth entry is the last of its file
        put(index, number)
    index.put(["T#same", "T#same", "T#same"], 900, START_MS)
    assert len(index.files) == 2
    assert index.find("T#same", 9, 0, FOREVER) == [900]


def test_files_are_named_by_local_time_and_names_rise_when_the_clock_is_set_back() -> None:
    disk = MemoryFiles()
    clock = ManualClock(START_MS + 7)
    index = new_index(disk, clock)
    put(index, 0)
    clock.jump_wall(-3_600_000)
    for number in range(1, 12):
        put(index, number)
    names = disk.list_dir(FOLDER)
    assert [len(name) for name in names] == [17, 17]
    assert names[0].endswith("007")
    assert [file.path.name for file in index.files] == names


def test_all_is_found_again_after_a_clean_stop() -> None:
    disk = MemoryFiles()
    filled(disk, 25).close()
    index = reopened(disk)
    assert found(index, 25) == list(range(25))
    put(index, 25)
    assert found(index, 26) == list(range(26))


def test_what_was_flushed_survives_any_crash() -> None:
    for seed in range(30):
        disk = MemoryFiles()
        index = filled(disk, 20)
        index.flush()
        safe_ms = index.safe_ms
        for number in range(20, 40):
            put(index, number)
            if number % 7 == 0:
                index.files[-1].write_out()
        after = disk.power_cut(random.Random(seed))
        again = reopened(after, clean=False, index_ms=safe_ms)
        assert found(again, 20) == list(range(20)), seed
        for number in range(18, 40):  # recovery dispatches again from the checkpoint on
            put(again, number)
        assert found(again, 40) == list(range(40)), seed


def test_what_was_flushed_after_a_kill_survives_a_power_cut() -> None:
    disk = MemoryFiles()
    filled(disk, 3).files[-1].write_out()
    again = reopened(disk, clean=False)
    put(again, 3)
    again.flush()
    assert found(reopened(disk.power_cut(), clean=False, index_ms=again.safe_ms), 4) == [0, 1, 2, 3]


def test_a_flush_covers_what_was_put_before_it_began() -> None:
    index = filled(MemoryFiles(), 12)
    (job,) = index.to_flush()
    put(index, 12)
    job.run()
    job.done()
    assert index.safe_ms == START_MS + 11_000
    (job,) = index.to_flush()
    job.run()
    job.done()
    assert index.safe_ms == START_MS + 12_000
    assert index.to_flush() == []


def test_after_a_failed_sync_nothing_more_is_promised() -> None:
    index = filled(FaultyFiles(MemoryFiles(), FaultPlan([Fault("sync", times=1)])), 3)
    with pytest.raises(StoreError, match="key index"):
        index.flush()
    assert index.to_flush() == []
    with pytest.raises(StoreError, match="key index"):
        index.flush()
    assert index.safe_ms == 0
    assert found(index, 3) == [0, 1, 2]


def test_files_that_end_below_the_log_are_dropped_and_never_the_newest() -> None:
    disk = MemoryFiles()
    index = filled(disk, 20)
    for file in index.delete_before(901):
        file.remove()
    assert found(index, 20) == list(range(9, 20))
    assert len(index.delete_before(10**9)) == 1
    assert len(index.files) == 1
    index.flush()


def test_a_cut_log_takes_its_keys_along() -> None:
    disk = MemoryFiles()
    index = filled(disk, 20)
    index.flush()
    index.truncate_after(1150)
    assert found(index, 20) == list(range(12))
    assert len(disk.list_dir(FOLDER)) == len(disk.power_cut().list_dir(FOLDER)) == 2
    for number in range(12, 20):
        put(index, number)
    assert found(index, 20) == list(range(20))


def test_a_cut_at_the_end_changes_nothing() -> None:
    disk = MemoryFiles()
    index = filled(disk, 20)
    index.flush()
    before = [disk.read_bytes(FOLDER / name) for name in disk.list_dir(FOLDER)]
    index.truncate_after(2000)
    assert [disk.read_bytes(FOLDER / name) for name in disk.list_dir(FOLDER)] == before


@pytest.mark.parametrize("count", [1, 12])
def test_a_file_that_a_crash_left_short_is_given_up(count: int) -> None:
    disk = MemoryFiles()
    filled(disk, count).close()
    newest = FOLDER / disk.list_dir(FOLDER)[-1]
    disk.write_bytes(newest, disk.read_bytes(newest)[:100])
    if count == 1:
        with pytest.raises(StoreError, match=newest.name):
            reopened(disk)
    index = reopened(disk, clean=False)
    assert newest.name not in disk.list_dir(FOLDER)
    for number in range(count):
        put(index, number)
    assert found(index, count) == list(range(count))


def test_a_file_that_a_kill_left_without_a_header_does_not_make_all_be_put_again() -> None:
    disk = MemoryFiles()
    index = filled(disk, 18)
    index.flush()
    size = disk.size(FOLDER / disk.list_dir(FOLDER)[0])
    disk.open(FOLDER / "20991231235959999", size=size, create=True).close()
    again = reopened(disk, clean=False)
    assert again.last_physical_offset == 1700
    for number in range(20):
        put(again, number)
    assert sum(len(file.entries()) for file in again.files) == 20
    assert found(again, 20) == list(range(20))


def test_after_a_crash_files_of_other_settings_are_still_an_error() -> None:
    disk = MemoryFiles()
    filled(disk, 12).close()
    index = new_index(disk, entries=20)
    with pytest.raises(StoreError, match="settings"):
        index.load(last_exit_ok=False, index_ms=1)
    assert len(disk.list_dir(FOLDER)) == 2


def test_several_files_that_a_crash_left_short_are_given_up() -> None:
    disk = MemoryFiles()
    filled(disk, 30).close()
    for name in disk.list_dir(FOLDER):
        disk.write_bytes(FOLDER / name, disk.read_bytes(FOLDER / name)[:-8])
    index = reopened(disk, clean=False)
    assert disk.list_dir(FOLDER) == []
    for number in range(30):
        put(index, number)
    assert found(index, 30) == list(range(30))


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_before_the_first_sync_leaves_no_gap_that_replaying_cannot_fill(seed: int) -> None:
    disk = MemoryFiles()
    filled(disk, 40)
    index = reopened(disk.power_cut(random.Random(seed)), clean=False)
    for number in range(40):
        put(index, number)
    assert found(index, 40) == list(range(40))


def test_strange_files_are_passed_over() -> None:
    disk = MemoryFiles()
    disk.make_dirs(FOLDER)
    disk.write_bytes(FOLDER / "README", b"x")
    assert reopened(disk).files == []


def test_destroying_leaves_no_file() -> None:
    disk = MemoryFiles()
    index = filled(disk, 20)
    index.flush()
    index.destroy_all()
    assert disk.list_dir(FOLDER) == disk.power_cut().list_dir(FOLDER) == []
    put(index, 0)
    assert found(index, 1) == [0]
