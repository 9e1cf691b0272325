from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER, FILLER_SIZE, pack_entry
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.mapped_file_list import MappedFileList

FOLDER = Path("/queues/T/0")
PER_FILE = 5
SIZE = 100  # bytes of every record here


def new_queue(disk: MemoryFiles, topic: str = "T") -> ConsumeQueue:
    return ConsumeQueue(topic, 0, MappedFileList(FOLDER, PER_FILE * ENTRY_SIZE, disk))


def reopened(disk: MemoryFiles, *, clean: bool = True) -> ConsumeQueue:
    mapped = MappedFileList(FOLDER, PER_FILE * ENTRY_SIZE, disk)
    mapped.load()
    queue = ConsumeQueue("T", 0, mapped)
    queue.recover(all_flushed=clean)
    return queue


def filled(disk: MemoryFiles, count: int, topic: str = "T") -> ConsumeQueue:
    queue = new_queue(disk, topic)  # complaints are rare: one a topic
    for number in range(count):
        assert queue.append(number, number * SIZE, SIZE, number)
    return queue


def physicals(queue: ConsumeQueue) -> list[int]:
    return [entry[0] for offset in range(queue.max_offset) for entry in queue.read(offset, 1)]


# -- appending and reading ---------------------------------------------------------------------------------------------


def test_entry_n_lies_at_byte_20_n() -> None:
    disk = MemoryFiles()
    filled(disk, 7)
    assert disk.list_dir(FOLDER) == [f"{0:020d}", f"{PER_FILE * ENTRY_SIZE:020d}"]
    assert disk.read_bytes(FOLDER / f"{100:020d}")[20:40] == pack_entry(600, SIZE, 6)


def test_a_read_ends_at_the_end_of_its_file() -> None:
    queue = filled(MemoryFiles(), 12)
    assert [entry[2] for entry in queue.read(3, 10)] == [3, 4]
    assert [entry[2] for entry in queue.read(5, 3)] == [5, 6, 7]
    assert [entry[2] for entry in queue.read(10, 10)] == [10, 11]
    assert queue.next_file_offset(3) == 5
    assert queue.next_file_offset(5) == 10


def test_there_is_nothing_to_read_outside_the_queue() -> None:
    queue = filled(MemoryFiles(), 3)
    assert queue.read(3, 1) == []
    assert queue.read(-1, 1) == []
    assert queue.read(1000, 1) == []
    assert queue.entry(3) is None
    assert new_queue(MemoryFiles()).read(0, 1) == []


def test_a_record_dispatched_again_changes_nothing() -> None:
    queue = filled(MemoryFiles(), 3)
    assert not queue.append(2, 2 * SIZE, SIZE, 2)
    assert not queue.append(0, 0, SIZE, 0)
    assert not queue.append(1, 5 * SIZE, SIZE, 9)  # an offset that is taken
    assert not queue.append(-5, 5 * SIZE, SIZE, 9)
    assert queue.max_offset == 3


def test_a_queue_that_starts_in_the_middle_of_a_file_is_filled_up() -> None:
    disk = MemoryFiles()
    queue = new_queue(disk)
    queue.append(8, 800, SIZE, 1)
    assert disk.list_dir(FOLDER) == [f"{100:020d}"]
    assert disk.read_bytes(FOLDER / f"{100:020d}")[:80] == FILLER * 3 + pack_entry(800, SIZE, 1)
    assert (queue.min_offset(0), queue.max_offset, queue.next_offset) == (8, 9, 9)
    assert reopened(disk).min_offset(0) == 8


def test_lost_entries_leave_fillers_so_that_offsets_stay_true() -> None:
    queue = filled(MemoryFiles(), 2)
    queue.append(6, 600, SIZE, 6)
    assert queue.entry(6) == (600, SIZE, 6)
    assert [entry[1] for entry in queue.read(2, 3)] == [FILLER_SIZE] * 3
    assert queue.max_offset == 7


def test_a_gap_of_more_than_a_file_is_filled_so_that_entry_n_stays_queue_offset_n() -> None:
    queue = filled(MemoryFiles(), 2)
    assert queue.append(23, 40 * SIZE, SIZE, 6)
    assert queue.entry(23) == (40 * SIZE, SIZE, 6)
    assert queue.max_offset == 24


def test_a_record_that_cannot_be_so_far_is_passed_over_and_said(caplog: pytest.LogCaptureFixture) -> None:
    queue = filled(MemoryFiles(), 2, "Far")
    assert not queue.append(2**50, 600, SIZE, 6)  # a flipped bit: there is no room for so many records before it
    assert "which cannot be" in caplog.text
    assert queue.append(2, 700, SIZE, 7)
    assert queue.entry(2) == (700, SIZE, 7)
    assert queue.max_offset == 3


def test_a_record_behind_a_lost_end_of_the_log_is_where_it_was_put() -> None:
    queue = filled(MemoryFiles(), 2)
    queue.given_out = 500  # a power cut took the log behind the second record; the next ones went there
    assert queue.append(500, 2 * SIZE, SIZE, 6)
    assert queue.entry(500) == (2 * SIZE, SIZE, 6)
    assert not queue.append(2**50, 3 * SIZE, SIZE, 6)


def test_a_record_whose_place_is_taken_is_never_dropped_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    queue = filled(MemoryFiles(), 4, "Taken")
    assert not queue.append(2, 2 * SIZE, SIZE, 2)  # dispatched again: there is nothing to say
    assert caplog.text == ""
    assert not queue.append(2, 900, SIZE, 2)
    assert "holds another message at 2, the record at 900" in caplog.text
    assert physicals(queue) == [0, 100, 200, 300]


def test_a_queue_begins_anew_with_a_later_record_number_0(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryFiles()
    queue = filled(disk, 12)
    queue.append_run(0, b"".join(pack_entry(2000 + at * SIZE, SIZE, at) for at in range(2)), 2200)
    assert queue.append(2, 2200, SIZE, 2)
    assert physicals(queue) == [2000, 2100, 2200]
    assert (queue.max_offset, queue.next_offset, queue.min_offset(0)) == (3, 3, 0)
    assert "12 entries before it" in caplog.text
    queue.close()
    assert physicals(reopened(disk)) == [2000, 2100, 2200]


def test_next_offset_follows_what_is_appended() -> None:
    queue = filled(MemoryFiles(), 3)
    assert queue.next_offset == 3
    queue.next_offset = 10  # assigned to records whose entries are still to come
    queue.append(3, 300, SIZE, 3)
    assert queue.next_offset == 10


# -- min offset --------------------------------------------------------------------------------------------------------


def test_min_offset_is_the_first_entry_at_or_behind_the_start_of_the_log() -> None:
    queue = filled(MemoryFiles(), 12)
    assert queue.min_offset(0) == 0
    assert queue.min_offset(1) == 1
    assert queue.min_offset(300) == 3
    assert queue.min_offset(1100) == 11


@pytest.mark.parametrize("per_file", [PER_FILE, 1000])
def test_fillers_hide_no_entry_when_the_log_loses_its_first_files(per_file: int) -> None:
    """hunt.md, H8: a search that halves the queue fell among fillers and took what lay before them for expired."""
    queue = ConsumeQueue("T", 0, MappedFileList(FOLDER, per_file * ENTRY_SIZE, MemoryFiles()))
    for number in (*range(10), *range(30, 40)):
        assert queue.append(number, number * SIZE, SIZE, number)
    for begin in (0, 100, 300, 900):
        assert queue.min_offset(begin) == begin // SIZE
    assert queue.min_offset(1000) in range(10, 31)  # the fillers may go, what is behind them may not
    assert queue.min_offset(3500) == 35


def test_an_emptied_queue_keeps_its_offset() -> None:
    queue = filled(MemoryFiles(), 12)
    assert queue.min_offset(1101) == 12
    queue.append(12, 1200, SIZE, 12)
    assert queue.min_offset(1101) == 12
    assert queue.min_offset(1200) == 12


def test_an_empty_queue_starts_at_zero() -> None:
    assert new_queue(MemoryFiles()).min_offset(500) == 0


def test_only_files_that_end_below_the_log_are_dropped_and_never_the_last() -> None:
    disk = MemoryFiles()
    queue = filled(disk, 12)
    queue.flush()
    assert queue.drop_before(400) == []
    dropped = queue.drop_before(401)
    assert [mapped.start for mapped in dropped] == [0]
    for mapped in dropped:
        mapped.remove()
    assert disk.list_dir(FOLDER) == [f"{100:020d}", f"{200:020d}"]
    assert queue.min_offset(401) == 5
    assert [mapped.start for mapped in queue.drop_before(10**6)] == [100]
    assert queue.min_offset(10**6) == 12


def test_a_file_that_ends_in_fillers_is_kept_for_the_entries_before_them() -> None:
    queue = filled(MemoryFiles(), 3)
    queue.reach(7)
    queue.flush()
    assert queue.drop_before(200) == []
    assert queue.min_offset(200) == 2
    assert [mapped.start for mapped in queue.drop_before(201)] == [0]


@pytest.mark.parametrize("damaged", range(12))
@pytest.mark.parametrize("place", [1, 10**9])
def test_one_damaged_entry_hides_no_other(damaged: int, place: int) -> None:
    """Wherever the log begins; and nothing is given out that has expired, but perhaps next to the damaged entry."""
    for first in range(13):
        queue = filled(MemoryFiles(), 12)
        queue.flush()
        queue.replace(damaged, place, SIZE, 0)
        hidden = 1 if damaged == first and place == 1 else 0  # it looks expired, and nothing tells
        assert queue.min_offset(first * SIZE) in (first, first + hidden, damaged if damaged < first else first)
        dropped = queue.drop_before(first * SIZE)
        assert all(mapped.end <= (first + hidden) * ENTRY_SIZE for mapped in dropped)


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_a_queue_finds_its_end_again() -> None:
    for count in (0, 1, 4, 5, 6, 23):
        disk = MemoryFiles()
        filled(disk, count)
        queue = reopened(disk)
        assert (queue.max_offset, queue.next_offset) == (count, count)
        assert queue.max_physical_offset == (count * SIZE if count else -1)
        assert physicals(queue) == [number * SIZE for number in range(count)]


def test_what_lies_behind_a_hole_is_cut_off_and_erased() -> None:
    disk = MemoryFiles()
    filled(disk, 8)
    disk.open(FOLDER / f"{100:020d}").pwrite(bytes(ENTRY_SIZE), ENTRY_SIZE)
    queue = reopened(disk)
    assert queue.max_offset == 6
    assert disk.read_bytes(FOLDER / f"{100:020d}")[ENTRY_SIZE:] == bytes(80)


def test_a_hole_in_an_earlier_file_removes_the_later_ones() -> None:
    disk = MemoryFiles()
    filled(disk, 18)
    disk.open(FOLDER / f"{100:020d}").pwrite(bytes(ENTRY_SIZE), 0)
    queue = reopened(disk)
    assert queue.max_offset == 5
    assert f"{200:020d}" not in disk.list_dir(FOLDER)
    assert queue.append(5, 500, SIZE, 5)
    assert queue.entry(5) == (500, SIZE, 5)


def test_fillers_without_an_entry_behind_them_are_forgotten() -> None:
    disk = MemoryFiles()
    filled(disk, 2)
    disk.open(FOLDER / f"{0:020d}").pwrite(FILLER * 2, 2 * ENTRY_SIZE)
    queue = reopened(disk)
    assert (queue.max_offset, queue.max_physical_offset) == (2, 2 * SIZE)


def test_after_a_crash_what_was_found_is_flushed_again() -> None:
    disk = MemoryFiles()
    filled(disk, 12)
    assert reopened(disk, clean=True).is_flushed
    queue = reopened(disk, clean=False)
    assert not queue.is_flushed
    queue.flush()
    assert queue.is_flushed


def test_entries_of_a_cut_off_log_are_forgotten() -> None:
    for limit, kept in ((10_000, 12), (1100, 11), (1099, 11), (500, 5), (499, 5), (1, 1), (0, 0)):
        disk = MemoryFiles()
        queue = filled(disk, 12)
        queue.next_offset = 50
        queue.truncate_after(limit)
        assert (queue.max_offset, queue.next_offset) == (kept, kept), limit
        assert queue.max_physical_offset == (kept * SIZE if kept else -1)
        assert reopened(disk).max_offset == kept
        assert queue.append(kept, 10_000, SIZE, 0)
        assert queue.max_offset == kept + 1


def test_a_cut_keeps_the_offset_of_a_queue_that_lost_its_first_files() -> None:
    queue = filled(MemoryFiles(), 7)
    queue.flush()
    queue.drop_before(600)
    queue.truncate_after(500)
    assert (queue.min_offset(600), queue.max_offset, queue.next_offset) == (5, 5, 5)


def test_after_a_crash_only_a_queue_that_was_cut_waits_for_the_disk() -> None:
    plan = FaultPlan()
    disk = MemoryFiles()
    filled(disk, 7).close()
    for is_cut in (False, True):
        if is_cut:  # an entry behind one that was lost
            disk.open(FOLDER / f"{PER_FILE * ENTRY_SIZE:020d}").pwrite(pack_entry(900, SIZE, 0), 4 * ENTRY_SIZE)
        plan.calls.clear()
        mapped = MappedFileList(FOLDER, PER_FILE * ENTRY_SIZE, FaultyFiles(disk, plan))
        mapped.load()
        queue = ConsumeQueue("T", 0, mapped)
        queue.recover(all_flushed=False)
        assert (queue.max_offset, queue.is_flushed) == (7, False)
        assert ("sync" in {call for call, _path in plan.calls}) == is_cut
