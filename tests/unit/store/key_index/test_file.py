from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.store.key_index.file import KeyIndexFile
from rocketlake.store.key_index.layout import HEADER_SIZE, entry_position, pack_slot, slot_position, unpack_header

PATH = Path("/index/20240101000000000")
FOREVER = 2**62


def new_file(disk: Files, *, slots: int = 7, entries: int = 20) -> KeyIndexFile:
    disk.make_dirs(PATH.parent)
    return KeyIndexFile(disk, PATH, slots=slots, entries_max=entries)


def everything(file: KeyIndexFile, hash_code: int) -> list[int]:
    return file.find(hash_code, 1000, 0, FOREVER)


def test_newest_entries_are_found_first_and_other_hashes_of_the_slot_are_not() -> None:
    file = new_file(MemoryFiles())
    for number, hash_code in enumerate((3, 10, 3, 17, 3)):
        file.put(hash_code, number * 100, 1000 + number)
    assert everything(file, 3) == [400, 200, 0]
    assert everything(file, 10) == [100]
    assert everything(file, 24) == []
    assert file.find(3, 2, 0, FOREVER) == [400, 200]


def test_counters_follow_apaches_rules() -> None:
    file = new_file(MemoryFiles())
    assert (file.is_empty, file.count, file.used_slots) == (True, 1, 0)
    file.put(3, 500, 90_000)
    file.put(10, 600, 95_500)
    file.put(4, 700, 96_000)
    assert (file.count, file.used_slots) == (4, 2)
    assert (file.begin_ms, file.end_ms, file.begin_physical, file.end_physical) == (90_000, 96_000, 500, 700)


def test_the_first_entry_of_a_later_file_counts_from_the_end_of_the_file_before() -> None:
    disk = MemoryFiles()
    first = new_file(disk)
    first.put(1, 100, 10_000)
    later = KeyIndexFile(disk, PATH.with_name("20240101000000001"), slots=7, entries_max=20)
    later.follow(first)
    assert (later.begin_ms, later.end_ms, later.begin_physical) == (10_000, 10_000, 100)
    later.put(2, 200, 13_000)
    assert later.entries() == [(2, 200, 3, 0)]
    assert (later.begin_ms, later.begin_physical) == (13_000, 200)


def test_a_file_is_full_one_entry_before_its_size() -> None:
    file = new_file(MemoryFiles(), entries=4)
    for number in range(3):
        assert not file.is_full
        file.put(number, number, 1)
    assert file.is_full


def test_only_entries_of_the_asked_time_are_found() -> None:
    file = new_file(MemoryFiles())
    for number in range(5):
        file.put(3, number * 100, 10_000 + number * 1000)
    assert file.find(3, 10, 11_000, 13_000) == [300, 200, 100]
    assert file.overlaps(0, 10_000)
    assert file.overlaps(14_000, 20_000)
    assert file.overlaps(0, 20_000)
    assert not file.overlaps(0, 9_999)
    assert not file.overlaps(14_001, 20_000)


def test_entries_reach_the_file_when_written_out() -> None:
    disk = MemoryFiles()
    file = new_file(disk)
    file.put(3, 100, 1000)
    assert disk.read_bytes(PATH) == bytes(len(disk.read_bytes(PATH)))
    file.write_out()
    again = new_file(disk)
    assert everything(again, 3) == [100]
    again.put(10, 200, 2000)
    assert everything(again, 3) == [100]
    assert again.entries() == [(3, 100, 0, 0), (10, 200, 1, 1)]


def test_a_refused_write_loses_no_entry() -> None:
    plan = FaultPlan()
    file = new_file(FaultyFiles(MemoryFiles(), plan))
    file.put(3, 100, 1000)
    plan.add(Fault("pwrite", after=1, times=1))
    with pytest.raises(OSError):
        file.write_out()
    file.put(3, 200, 1000)
    assert everything(file, 3) == [200, 100]


def test_a_slot_that_names_an_entry_not_there_is_empty() -> None:
    disk = MemoryFiles()
    file = new_file(disk)
    file.put(3, 100, 1000)
    file.write_out()
    disk.open(PATH).pwrite(pack_slot(19), slot_position(4))
    disk.open(PATH).pwrite(pack_slot(-2), slot_position(5))
    again = new_file(disk)
    assert everything(again, 4) == []
    assert everything(again, 5) == []


def test_a_chain_that_runs_in_a_circle_ends() -> None:
    disk = MemoryFiles()
    file = new_file(disk)
    file.put(3, 100, 1000)
    file.put(3, 200, 1000)
    file.write_out()
    disk.open(PATH).pwrite((2).to_bytes(4, "big"), entry_position(7, 1) + 16)
    assert everything(new_file(disk), 3) == [200, 100]


def test_a_header_with_a_wild_count_is_kept_in_bounds() -> None:
    disk = MemoryFiles()
    new_file(disk).file.pwrite((2**31 - 1).to_bytes(4, "big"), 36)
    assert new_file(disk).count == 20
    new_file(disk).file.pwrite((-5).to_bytes(4, "big", signed=True), 36)
    assert new_file(disk).count == 1


def test_a_file_of_another_size_is_refused_by_name() -> None:
    disk = MemoryFiles()
    new_file(disk)
    with pytest.raises(StoreError, match=PATH.name):
        new_file(disk, slots=8)


# -- mending -----------------------------------------------------------------------------------------------------------


def crashed(disk: MemoryFiles) -> KeyIndexFile:
    file = new_file(disk)
    for number in range(10):
        file.put(number * 3, number * 100 + 50, 10_000 + number * 1000)
    file.write_out()
    return file


def test_mending_a_sound_file_changes_no_byte() -> None:
    disk = MemoryFiles()
    crashed(disk)
    before = disk.read_bytes(PATH)
    new_file(disk).mend(FOREVER)
    assert disk.read_bytes(PATH) == before


def test_lost_slots_and_links_are_made_anew() -> None:
    disk = MemoryFiles()
    crashed(disk)
    before = disk.read_bytes(PATH)
    raw = disk.open(PATH)
    raw.pwrite(bytes(7 * 4), slot_position(0))
    raw.pwrite(bytes(4), entry_position(7, 8) + 16)
    new_file(disk).mend(FOREVER)
    assert disk.read_bytes(PATH) == before


def test_entries_behind_a_lost_page_are_given_up() -> None:
    disk = MemoryFiles()
    crashed(disk)
    disk.open(PATH).pwrite(bytes(20), entry_position(7, 5))
    file = new_file(disk)
    file.mend(FOREVER)
    assert (file.count, file.end_physical, file.end_ms) == (5, 350, 13_000)
    assert everything(file, 9) == [350]
    assert everything(file, 12) == []
    assert unpack_header(disk.read_bytes(PATH)[:HEADER_SIZE])[5] == 5
    file.put(12, 450, 14_000)
    assert everything(file, 12) == [450]


def test_entries_of_records_cut_off_are_given_up() -> None:
    disk = MemoryFiles()
    file = crashed(disk)
    file.mend(750)
    assert (file.count, file.end_physical) == (8, 650)
    assert all(physical < 750 for _hash, physical, _seconds, _previous in file.entries())


@pytest.mark.parametrize("count", [4, 11])
def test_no_entry_given_up_comes_back_with_another_power_cut(count: int) -> None:
    """The header is older than the entries, or they are cut off. New ones follow, of which only the header is kept."""
    disk = MemoryFiles()
    crashed(disk)
    header = bytearray(disk.read_bytes(PATH)[:HEADER_SIZE])
    header[36:40] = count.to_bytes(4, "big")
    disk.open(PATH).pwrite(header, 0)
    mended = new_file(disk)
    mended.mend(350)  # the log ends there
    disk.sync_dir(PATH.parent)
    disk.sync_dir(PATH.parent.parent)
    kept = disk.power_cut(None)
    for physical in (400, 500, 600, 700):
        mended.put(1, physical, 20_000)
    mended.write_out()
    kept.open(PATH).pwrite(disk.read_bytes(PATH)[:HEADER_SIZE], 0)
    again = new_file(kept)
    again.mend(FOREVER)
    assert [physical for _hash, physical, _seconds, _previous in again.entries()] == [50, 150, 250]


def test_the_whole_file_is_sparse(tmp_path: Path) -> None:
    file = KeyIndexFile(PosixFiles(), tmp_path / "20240101000000000", slots=5_000_000, entries_max=20_000_000)
    for number in range(100):
        file.put(number * 7919, number, 1000)
    file.write_out()
    status = (tmp_path / "20240101000000000").stat()
    assert status.st_size == 420_000_040
    assert status.st_blocks * 512 < 4 * 1024 * 1024
    file.close()
