"""The timer's files on a disk in memory: what waits for a tick, and what crashes leave of it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.store.timer.checkpoint import TimerCheckpoint
from rocketlake.store.timer.layout import DELETE, DUE
from rocketlake.store.timer.timer_store import TimerStore, Waiting
from tests.seeds import seeds

ROOT = Path("/s")
NOW = 1_700_000_000_000
FILE = 52 * 10 + 16
"""Ten units and a blank."""


def opened(disk: MemoryFiles) -> TimerStore:
    store = TimerStore(ROOT, disk, file_bytes=FILE, precision_ms=1000)
    store.load()
    return store


def message(number: int, seconds: int = 5, bits: int = DUE) -> Waiting:
    return Waiting(NOW + seconds * 1000, bits, number * 100, 100, -7)


def flush(store: TimerStore, read_ms: int = NOW) -> None:
    job = store.to_flush(read_ms)
    assert job is not None
    store.flushed(job())


def places(store: TimerStore, seconds: int = 5) -> list[int]:
    return [unit.physical_offset // 100 for unit in store.units(NOW + seconds * 1000)]


@pytest.fixture
def disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_dirs(ROOT)
    for folder in (ROOT, ROOT.parent):
        disk.sync_dir(folder)
    return disk


def test_a_broker_without_such_messages_makes_no_file(disk: MemoryFiles) -> None:
    store = opened(disk)
    assert (store.units(NOW), store.counts(0), store.to_flush(NOW)) == ([], [], None)
    assert store.next_filled(NOW, NOW + 9000) == NOW + 9000
    assert disk.list_dir(ROOT) == []


def test_messages_of_a_tick_come_in_the_order_in_which_they_went_in(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.put([message(1), message(2, 6), message(3)], NOW)
    store.put([message(4), message(5, bits=DELETE)], NOW)
    assert (places(store), places(store, 6), places(store, 7)) == ([1, 3, 4, 5], [2], [])
    assert store.next_filled(NOW, NOW + 60_000) == NOW + 5000
    assert store.counts(NOW) == [(NOW + 5000, 2), (NOW + 6000, 1)]
    assert store.counts(NOW + 6000) == [(NOW + 6000, 1)]


def test_a_tick_that_is_done_is_empty_and_may_be_filled_again(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.put([message(1)], NOW)
    store.done(NOW + 5000)
    assert places(store) == []
    store.put([message(2)], NOW)
    assert places(store) == [2]


def test_a_slot_of_an_earlier_round_counts_as_empty(disk: MemoryFiles) -> None:
    store = opened(disk)
    round_seconds = 14 * 24 * 3600
    store.put([message(1)], NOW)
    assert places(store, 5 + round_seconds) == []
    store.put([message(2, 5 + round_seconds)], NOW)
    assert (places(store), places(store, 5 + round_seconds)) == ([], [2])


def test_the_bytes_are_apaches(disk: MemoryFiles) -> None:
    """The layouts of TimerWheel, TimerLog and TimerCheckpoint, written out."""
    store = opened(disk)
    store.queue_offset = 12
    store.put([message(number) for number in range(1, 12)], NOW)
    flush(store)
    first = disk.read_bytes(ROOT / "timerlog" / f"{0:020d}")
    assert first[52:104] == struct.pack(">iqiqiqiiq", 52, 0, 1, NOW, 5000, 200, 100, -7, 0)
    assert first[520:] == struct.pack(">iqI", 16, 0, 0xCBD43194)
    second = disk.read_bytes(ROOT / "timerlog" / f"{FILE:020d}")
    assert second[:52] == struct.pack(">iqiqiqiiq", 52, 468, 1, NOW, 5000, 1100, 100, -7, 0)
    wheel = disk.read_bytes(ROOT / "timerwheel")
    assert len(wheel) == 38_707_200
    tick = (NOW + 5000) // 1000
    at = tick % 1_209_600 * 32
    assert wheel[at : at + 32] == struct.pack(">qqqii", tick, 0, FILE, 11, 0x524C)
    page = disk.read_bytes(ROOT / "config" / "timercheck")
    assert (len(page), page[:56]) == (4096, struct.pack(">7q", NOW, FILE + 52, 12, 12, 0, 0, 0))


def test_what_was_flushed_is_there_after_a_power_cut(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.queue_offset = 25
    store.put([message(number, 5 + number % 3) for number in range(25)], NOW)
    flush(store, NOW + 1000)
    again = opened(disk.power_cut(None))
    assert [places(again, 5 + rest) for rest in range(3)] == [list(range(rest, 25, 3)) for rest in range(3)]
    assert (again.queue_offset, again.checkpoint.read_ms) == (25, NOW + 1000)
    again.put([message(25)], NOW)
    assert places(again)[-1] == 25


@pytest.mark.parametrize("seed", [183610, 183628, 438729, *seeds("timer-files", short=8, whole=30)])
def test_after_any_power_cut_each_unit_of_the_log_is_in_its_tick_once(seed: int) -> None:
    """Sectors of wheel and log that were not synced are there or not, on their own; then life goes on, and again."""
    rng = random.Random(seed)
    disk = MemoryFiles()
    disk.make_dirs(ROOT)
    disk.sync_dir(ROOT)
    disk.sync_dir(ROOT.parent)
    number = 0
    for _life in range(4):
        store = opened(disk)
        log = [unit for _place, unit in store.newest()][::-1]
        flushed = store.queue_offset
        kept = [unit.physical_offset // 100 for unit in log]
        assert kept[:flushed] == list(range(flushed)), "what a checkpoint vouches for is there, in order"
        by_tick: dict[int, list[int]] = {}
        for unit in log:
            by_tick.setdefault(unit.due_ms, []).append(unit.physical_offset // 100)
        assert {time: places(store, (time - NOW) // 1000) for time in by_tick} == by_tick
        number = store.queue_offset = kept[-1] + 1 if kept else 0
        for _step in range(rng.randint(1, 5)):
            count = rng.randint(1, 15)
            store.put([message(number + more, rng.randint(5, 8)) for more in range(count)], NOW)
            number = store.queue_offset = number + count
            if rng.random() < 0.4:
                flush(store)
        disk = disk.power_cut(rng)


def test_the_newest_units_come_first_over_files_and_blanks(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.put([message(number) for number in range(23)], NOW)
    assert [unit.physical_offset // 100 for _place, unit in store.newest()] == list(range(22, -1, -1))
    again = opened(disk)
    assert [unit.physical_offset // 100 for _place, unit in again.newest()] == list(range(22, -1, -1))


def test_files_whose_messages_expired_go(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.put([message(number) for number in range(25)], NOW)
    store.drop_before(950)
    assert len(disk.list_dir(ROOT / "timerlog")) == 3, "nothing is safe yet"
    flush(store)
    store.drop_before(950)
    assert disk.list_dir(ROOT / "timerlog") == [f"{FILE:020d}", f"{2 * FILE:020d}"]
    assert places(opened(disk)) == list(range(10, 25))


def test_files_of_another_length_are_refused_with_the_setting(disk: MemoryFiles) -> None:
    store = opened(disk)
    store.put([message(number) for number in range(25)], NOW)
    flush(store)
    other = TimerStore(ROOT, disk, file_bytes=FILE + 52, precision_ms=1000)
    with pytest.raises(StoreError) as refused:
        other.load()
    assert "mappedFileSizeTimerLog" in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize("data", [b"", b"x" * 31, struct.pack(">4q", -1, 0, 0, 0)])
def test_no_checkpoint_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="checkpoint of a timer"):
        TimerCheckpoint.of_bytes(data)


def test_old_brokers_tell_four_numbers() -> None:
    assert TimerCheckpoint.of_bytes(struct.pack(">4q", 1, 2, 3, 4)) == TimerCheckpoint(1, 2, 3, 4)
