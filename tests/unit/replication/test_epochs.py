"""Epochs: rules of a history, its file, changes that are on disk before they count."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.base.worker import HandWorker, InlineWorker
from rocketlake.replication.epochs import epoch_file
from rocketlake.replication.epochs.history import Epoch, EpochHistory, agreed_end
from rocketlake.replication.epochs.kept import FILE_NAME, KeptEpochs
from rocketlake.replication.epochs.marks import BLANK, GONE, MarkAt, shared_end

PATH = Path("/store") / FILE_NAME


def history(entries: dict[int, int]) -> EpochHistory:
    return EpochHistory(Epoch(number, start) for number, start in entries.items())  # type: ignore[arg-type]


# -- rules of a history ------------------------------------------------------------------------------------------------


def test_an_epoch_without_bytes_is_kept_and_no_byte_is_its_own() -> None:
    both = history({1: 0, 2: 100, 3: 100})
    assert [both.number_at(offset) for offset in (-1, 0, 99, 100, 200)] == [-1, 1, 1, 3, 3]
    assert [both.end_at(offset) for offset in (0, 99, 100)] == [100, 100, None]
    assert both.cut(100) == history({1: 0})
    assert both.cut(101) == both
    assert both.before_epoch(3) == history({1: 0, 2: 100})
    assert both.from_offset(100) == history({3: 100})
    assert both.from_offset(99) == both
    assert EpochHistory().from_offset(5) == EpochHistory()
    assert both.newest(2) == history({2: 100, 3: 100})
    assert (EpochHistory().last, EpochHistory().number_at(5)) == (None, -1)


@pytest.mark.parametrize("entries", [[(2, 0), (2, 5)], [(2, 9), (3, 8)], [(-1, 0)], [(1, -1)]])
def test_what_is_no_history_is_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(ProtocolError):
        EpochHistory(Epoch(*entry) for entry in entries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mine", "my_end", "other", "other_end", "point"),
    [
        ({1: 0}, 100, {1: 0}, 100, 100),
        ({1: 0}, 120, {1: 0}, 100, 100),
        ({1: 0}, 120, {1: 0, 2: 100}, 300, 100),
        ({1: 0, 2: 100}, 150, {1: 0, 3: 100}, 300, 100),
        ({1: 0, 2: 100, 3: 100}, 150, {1: 0, 3: 100}, 120, 120),  # Apache's list lacks the epoch without bytes
        ({1: 0, 3: 90}, 150, {1: 0, 3: 100}, 120, 90),
        ({1: 0}, 0, {2: 0}, 0, 0),  # Apache's slave finds "no consistent point" here
        ({1: 0}, 10, {2: 0}, 10, 0),
        ({}, 0, {2: 0}, 10, 0),
        ({}, 5, {2: 0}, 10, None),  # bytes of no known epoch
        ({1: 0}, 5, {}, 0, None),
        ({1: 0, 2: 50}, 100, {2: 50, 3: 90}, 200, 90),  # the other has removed old files
        ({1: 0}, 40, {2: 50}, 200, None),
        ({1: 0}, 100, {2: 50}, 200, None),  # before 50 they may differ, too
        ({2: 50}, 100, {1: 0}, 200, 50),  # our oldest bytes differ: all of them go
    ],
)
def test_how_far_two_logs_agree(
    mine: dict[int, int], my_end: int, other: dict[int, int], other_end: int, point: int | None
) -> None:
    assert agreed_end(history(mine), my_end, history(other), other_end) == point  # type: ignore[arg-type]


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_text_of_the_file_is_that_of_apache() -> None:
    # The example in the source of Apache's CheckpointFile.
    assert epoch_file.encode(history({7: 7000, 8: 8000})) == b"2\n773307083\n7-7000\n8-8000\n"
    assert epoch_file.decode(b"1\n0\n7-7000\n") == history({7: 7000})  # 0: no checksum


@pytest.mark.parametrize(
    "text",
    [b"", b"2\n", b"1\n773307083\n7-7000\n8-8000\n", b"2\n5\n7-7000\n8-8000\n", b"1\n0\n7\n", b"1\n0\n7--7\n", b"\xff"],
)
def test_a_damaged_file_is_refused_and_its_older_copy_is_not_believed(text: bytes) -> None:
    disk = MemoryFiles()
    disk.make_dirs(PATH.parent)
    disk.write_bytes(PATH.with_name(FILE_NAME + ".bak"), epoch_file.encode(history({1: 0})))
    disk.write_bytes(PATH, text)
    with pytest.raises(StoreError, match="is damaged"):
        epoch_file.load(disk, PATH)


def test_an_empty_history_has_no_file_and_no_copy() -> None:
    disk = MemoryFiles()
    epoch_file.save(disk, PATH, history({1: 0}))
    disk.write_bytes(PATH.with_name(FILE_NAME + ".bak"), b"of Apache's broker")
    epoch_file.save(disk, PATH, EpochHistory())
    assert (disk.list_dir(PATH.parent), epoch_file.load(disk, PATH)) == ([], EpochHistory())


def test_a_crash_at_any_step_of_a_save_leaves_the_old_or_the_new_history() -> None:
    old, new = history({1: 0}), history({1: 0, 2: 77})
    for call in ("write_bytes", "rename", "sync_dir"):
        disk = MemoryFiles()
        epoch_file.save(disk, PATH, old)
        files = FaultyFiles(disk)
        files.plan.add(Fault(call, error=errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            epoch_file.save(files, PATH, new)
        assert epoch_file.load(disk, PATH) in (old, new)
        assert epoch_file.load(disk.power_cut(), PATH) in (old, new)
    epoch_file.save(disk, PATH, new)
    assert epoch_file.load(disk.power_cut(), PATH) == new


# -- changes -----------------------------------------------------------------------------------------------------------


async def test_changes_are_on_disk_when_they_return_and_are_read_again() -> None:
    disk = MemoryFiles()
    epochs = KeptEpochs(PATH, disk, InlineWorker())
    epochs.load()
    await epochs.lead(1, 0)  # type: ignore[arg-type]
    await epochs.follow(2, 100)  # type: ignore[arg-type]
    await epochs.follow(2, 100)  # type: ignore[arg-type]
    await epochs.lead(4, 100)  # type: ignore[arg-type]
    assert epochs.history == history({1: 0, 2: 100, 4: 100})
    again = KeptEpochs(PATH, disk.power_cut(), InlineWorker())
    again.load()
    assert again.history == epochs.history
    await again.cut(100)  # type: ignore[arg-type]
    assert again.history == history({1: 0})
    await again.lead(5, 70)  # type: ignore[arg-type]
    await again.drop_before(70)  # type: ignore[arg-type]
    assert again.history == history({5: 70})
    with pytest.raises(ProtocolError, match="epoch 4 at 90 cannot follow 5 at 70"):
        await again.follow(4, 90)  # type: ignore[arg-type]


async def test_a_change_counts_when_the_disk_has_it_and_the_next_one_waits_for_it() -> None:
    disk, worker = MemoryFiles(), HandWorker()
    files = FaultyFiles(disk)
    epochs = KeptEpochs(PATH, files, worker)
    first, second = (asyncio.ensure_future(epochs.lead(number, 0)) for number in (1, 2))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert (epochs.history, len(worker.pending)) == (EpochHistory(), 1)
    worker.run_one()
    await first
    assert epochs.history == history({1: 0})
    files.plan.add(Fault("rename"))
    await asyncio.sleep(0)
    worker.run_one()
    with pytest.raises(OSError, match="Input/output"):
        await second
    assert epochs.history == epoch_file.load(disk, PATH) == history({1: 0})


# -- an epoch that was given twice -------------------------------------------------------------------------------------


def marks(places: dict[int, str]) -> MarkAt:
    async def mark(offset: int) -> str:
        return places.get(offset, GONE)

    return mark


@pytest.mark.parametrize(
    ("mine", "masters", "end"),
    [
        ({900: "a"}, {900: "a"}, 950),
        ({900: "a", 600: "b", 150: "c"}, {900: "x", 600: "b"}, 800),
        ({900: "a", 600: "b", 150: "c"}, {900: "x", 600: "y", 150: "c"}, 150),  # file, epoch: 600 of epoch 3
        ({900: "a", 600: "b", 100: "c", 0: "d"}, {900: "x", 600: "y", 100: "z", 0: "w"}, 0),
        ({900: BLANK, 600: "b"}, {900: BLANK, 600: "b"}, 950),
        ({900: BLANK, 600: "b"}, {900: BLANK, 600: "x", 100: "c"}, 150),
        ({900: "a"}, {}, 950),  # the master's log begins behind it, or it does not tell
    ],
)
async def test_logs_agree_up_to_the_last_epoch_whose_records_are_the_same(
    mine: dict[int, str], masters: dict[int, str], end: int
) -> None:
    """Files of 300 bytes; epoch 3 from 150, epoch 4 from 800, epoch 5 without a byte."""
    own = history({1: 0, 3: 150, 4: 800, 5: 950})
    assert await shared_end(own, 950, 300, marks(mine), marks(masters)) == end  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "end"),
    [("b", 950), ("x", 150)],  # of the record in the file before it, in the same epoch
)
async def test_a_record_that_is_known_to_be_damaged_is_no_sign_of_another_master(before: str, end: int) -> None:
    own, mine = history({1: 0, 3: 150}), marks({900: "damaged", 600: "b", 0: "d"})
    masters = marks({900: "a", 600: before, 0: "d"})
    assert await shared_end(own, 950, 300, mine, masters, damaged=900) == end  # type: ignore[arg-type]
