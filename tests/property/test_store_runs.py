"""Appending by the run leaves the same bytes and the same state as appending one by one, wherever the runs are cut."""

from __future__ import annotations

import errno
from array import array
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.store.consume_queue.entry import pack_entry
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.key_index.files import KeyIndex

QUEUES = Path("/store/consumequeue")
INDEX = Path("/store/index")
START_MS = 1_700_000_000_000

# Lengths of runs; 0 is a single append between them.
RUNS = st.lists(st.integers(0, 14), max_size=12)


def content(disk: MemoryFiles, folder: Path) -> list[tuple[str, bytes]]:
    return [(name, disk.read_bytes(folder / name)) for name in disk.list_dir(folder)]


# --- consume queue ----------------------------------------------------------------------------------------------------


def entry(number: int) -> tuple[int, int, int]:
    return 10_000 + number * 10, 7 + number % 4, number * 3 - 20


def opened_table(disk: MemoryFiles | FaultyFiles, tails: int = 1000) -> ConsumeQueueTable:
    table = ConsumeQueueTable(QUEUES, disk, file_size=100, tail_bytes_max=tails)
    table.load()
    return table


def made_queue(table: ConsumeQueueTable) -> ConsumeQueue:
    table.assign("T", 0)
    table.give_back("T", 0)
    queue = table.find("T", 0)
    assert queue is not None
    return queue


def give_run(table: ConsumeQueueTable, queue: ConsumeQueue, first: int, count: int, shift: int = 0) -> None:
    entries = [entry(number) for number in range(first, first + count)]
    data = b"".join(pack_entry(*one) for one in entries)
    table.append_run(queue, first + shift, data, entries[-1][0] + entries[-1][1])


def state(table: ConsumeQueueTable, queue: ConsumeQueue) -> tuple[object, ...]:
    numbers = queue.max_offset, queue.next_offset, queue.max_physical_offset, queue.min_offset(0), queue.is_flushed
    return numbers, [queue.packed(offset, 3) for offset in range(queue.max_offset + 1)]


@settings(max_examples=150, deadline=None)
@given(runs=RUNS, shift=st.integers(0, 7), again=st.integers(0, 3), tails=st.sampled_from([0, 60, 1000]))
def test_a_run_of_queue_entries_equals_single_appends(runs: list[int], shift: int, again: int, tails: int) -> None:
    """`shift` starts the queue in the middle of a file; `again` entries of each run were given before."""
    single_disk, run_disk = MemoryFiles(), MemoryFiles()
    single, by_run = opened_table(single_disk, 0), opened_table(run_disk, tails)
    one, other = made_queue(single), made_queue(by_run)
    number = 0
    for length in runs:
        first = max(0, number - again) if length else number
        number += length or 1
        for at in range(first, number):
            single.append("T", 0, at + shift, *entry(at))
        if length:
            give_run(by_run, other, first, number - first, shift)
        else:
            by_run.append("T", 0, first + shift, *entry(first))
        assert state(single, one) == state(by_run, other)
    assert any(by_run.to_flush()) == bool(number)
    by_run.flush()
    assert other.is_flushed
    assert content(single_disk, QUEUES / "T/0") == content(run_disk, QUEUES / "T/0")
    reopened = opened_table(run_disk)
    assert reopened.max_offset("T", 0) == (number + shift if number else 0)


@settings(max_examples=100, deadline=None)
@given(
    before=st.integers(0, 9),
    length=st.integers(1, 20),
    after=st.integers(0, 5),
    keep_bytes=st.integers(0, 60),
    tails=st.sampled_from([0, 60, 1000]),
)
def test_a_run_that_the_disk_refused_can_be_given_again(
    before: int, length: int, after: int, keep_bytes: int, tails: int
) -> None:
    disk = MemoryFiles()
    plan = FaultPlan()
    table = opened_table(FaultyFiles(disk, plan), tails)
    queue = made_queue(table)
    if before:
        give_run(table, queue, 0, before)
    plan.add(Fault("pwrite", after=after, times=1, error=errno.ENOSPC, keep_bytes=keep_bytes))
    try:
        give_run(table, queue, before, length)
    except OSError:
        end = queue.max_offset
        assert end == queue.next_offset
        assert queue.max_physical_offset == (sum(entry(end - 1)[:2]) if end else -1)
        give_run(table, queue, before, length)
    plan.clear()
    assert any(table.to_flush())
    expected = MemoryFiles()
    single = opened_table(expected, 0)
    for number in range(before + length):
        single.append("T", 0, number, *entry(number))
    assert content(disk, QUEUES / "T/0") == content(expected, QUEUES / "T/0")


# --- key index --------------------------------------------------------------------------------------------------------

# Few hashes, so that chains get long; each record has up to three. A text of one character has its code point as hash.
HASHES = st.integers(0, 40).map(lambda number: number * 1100)
RECORDS = st.lists(st.lists(HASHES, max_size=3), max_size=60)
OTHER_KEYS = st.lists(st.lists(HASHES, max_size=3, unique=True), max_size=60)


def opened_index(disk: MemoryFiles | FaultyFiles, slots: int, entries: int, waiting: int = 1000) -> KeyIndex:
    clock = ManualClock(START_MS)
    index = KeyIndex(INDEX, disk, clock, slots=slots, entries_max=entries, slots_waiting_max=waiting)
    index.load(last_exit_ok=True, index_ms=0)
    return index


def pairs_of(records: list[tuple[int, list[int]]]) -> array[int]:
    return array("q", [number for physical, hashes in records for each in hashes for number in (each, physical)])


def hits(index: KeyIndex) -> list[list[int]]:
    return [[found for file in index.files for found in file.find(each * 1100, 1000, 0, 2**62)] for each in range(41)]


@settings(max_examples=200, deadline=None)
@given(
    records=RECORDS,
    runs=RUNS,
    slots=st.sampled_from([1, 7, 50, 5000, 50_000]),
    entries=st.integers(3, 60),
    waiting=st.integers(1, 9),
    start=st.sampled_from([0, 1000]),
    again=st.integers(0, 3),
    event=st.sampled_from(["", "find", "flush", "to_flush", "restart"]),
)
def test_a_run_of_keys_equals_single_puts(
    records: list[list[int]],
    runs: list[int],
    slots: int,
    entries: int,
    waiting: int,
    start: int,
    again: int,
    event: str,
) -> None:
    single_disk, run_disk = MemoryFiles(), MemoryFiles()
    single, by_run = opened_index(single_disk, slots, entries), opened_index(run_disk, slots, entries, waiting)
    log = [(start + number * 100, hashes) for number, hashes in enumerate(records)]
    number, turn = 0, 0
    while number < len(log):
        length = max(1, runs[turn % len(runs)] if runs else 5)
        turn += 1
        first, number = max(0, number - again), number + length
        store_ms = START_MS + turn * 700
        for physical, hashes in log[first:number]:
            single.put([chr(each) for each in hashes], physical, store_ms)
        by_run.put_run(pairs_of(log[first:number]), store_ms)
        if event == "find":
            assert hits(single) == hits(by_run)
        elif event == "flush":
            by_run.flush()
        elif event == "to_flush":
            for job in by_run.to_flush():
                job.run()
                job.done()
        elif event == "restart":
            by_run.close()
            by_run = opened_index(run_disk, slots, entries, waiting)
        assert (single.last_ms, single.last_physical_offset) == (by_run.last_ms, by_run.last_physical_offset)
    assert hits(single) == hits(by_run)
    single.close()
    by_run.close()
    assert content(single_disk, INDEX) == content(run_disk, INDEX)


@settings(max_examples=100, deadline=None)
@given(
    records=OTHER_KEYS,
    cut=st.integers(0, 60),
    after=st.integers(0, 12),
    keep_bytes=st.integers(0, 60),
    entries=st.integers(3, 60),
    slots=st.sampled_from([7, 5000]),
    waiting=st.integers(1, 9),
)
def test_keys_that_the_disk_refused_can_be_given_again(
    records: list[list[int]], cut: int, after: int, keep_bytes: int, entries: int, slots: int, waiting: int
) -> None:
    disk = MemoryFiles()
    plan = FaultPlan()
    index = opened_index(FaultyFiles(disk, plan), slots, entries, waiting)
    log = [(100 + number * 100, hashes) for number, hashes in enumerate(records)]
    index.put_run(pairs_of(log[:cut]), START_MS)
    plan.add(Fault("pwrite", after=after, times=1, error=errno.ENOSPC, keep_bytes=keep_bytes))
    for _ in range(2):
        try:
            index.put_run(pairs_of(log[cut:]), START_MS)
            index.flush()
            break
        except StoreError:
            index.sync_error = ""
        except OSError:
            pass
    plan.clear()
    index.close()
    expected = MemoryFiles()
    single = opened_index(expected, slots, entries)
    for physical, hashes in log:
        single.put([chr(each) for each in hashes], physical, START_MS)
    single.close()
    assert [data for _name, data in content(disk, INDEX)] == [data for _name, data in content(expected, INDEX)]
