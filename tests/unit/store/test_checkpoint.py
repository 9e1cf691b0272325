from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.store.checkpoint import CHECKPOINT_SIZE, Checkpoint

PATH = Path("/checkpoint")
GOLDEN = Path(__file__).parents[2] / "golden/stores/apache-5.3.3-clean/checkpoint"


def loaded(files: MemoryFiles | FaultyFiles) -> Checkpoint:
    checkpoint = Checkpoint(files, PATH)
    checkpoint.load()
    return checkpoint


def test_a_missing_checkpoint_is_made_of_zeros() -> None:
    files = MemoryFiles()
    assert loaded(files).min_ms == 0
    assert files.read_bytes(PATH) == bytes(CHECKPOINT_SIZE)


def test_numbers_come_back_as_they_were_written() -> None:
    files = MemoryFiles()
    checkpoint = loaded(files)
    checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.index_ms = 9000, 8000, 3000
    checkpoint.confirm_offset = 77
    assert checkpoint.changed
    checkpoint.write(checkpoint.encode())
    assert not checkpoint.changed
    again = loaded(files)
    assert (again.physic_ms, again.logics_ms, again.index_ms, again.confirm_offset) == (9000, 8000, 3000, 77)


def test_the_margin_is_three_seconds_before_the_older_of_log_and_queues() -> None:
    checkpoint = loaded(MemoryFiles())
    checkpoint.physic_ms, checkpoint.logics_ms = 9000, 8000
    assert checkpoint.min_ms == 5000
    checkpoint.logics_ms = 100
    assert checkpoint.min_ms == 0


def test_apaches_checkpoint_is_written_back_byte_for_byte() -> None:
    page = GOLDEN.read_bytes()
    files = MemoryFiles()
    files.write_bytes(PATH, page)
    checkpoint = loaded(files)
    assert checkpoint.physic_ms > 1_500_000_000_000
    assert checkpoint.encode() == page[:60]
    assert not checkpoint.is_ours
    checkpoint.write(checkpoint.encode())
    assert files.read_bytes(PATH) == page


def test_negative_numbers_of_a_damaged_page_count_as_nothing_known() -> None:
    files = MemoryFiles()
    files.write_bytes(PATH, b"\xff" * CHECKPOINT_SIZE)
    assert loaded(files).min_ms == 0


def test_a_checkpoint_of_another_length_is_named() -> None:
    files = MemoryFiles()
    files.write_bytes(PATH, b"x" * 17)
    with pytest.raises(StoreError, match="17 bytes"):
        loaded(files)


def test_a_page_that_was_not_written_still_counts_as_changed() -> None:
    files = FaultyFiles(MemoryFiles())
    checkpoint = loaded(files)
    checkpoint.physic_ms = 5
    files.plan.add(Fault("sync", times=1))
    with pytest.raises(OSError, match="Input/output"):
        checkpoint.write(checkpoint.encode())
    assert checkpoint.changed


def test_a_position_of_our_own_comes_back() -> None:
    files = MemoryFiles()
    checkpoint = loaded(files)
    checkpoint.physic_ms, checkpoint.derived_offset = 9000, 123_456
    checkpoint.write(checkpoint.encode())
    again = loaded(files)
    assert (again.physic_ms, again.derived_offset, again.is_ours) == (9000, 123_456, True)


def rewritten(change: Callable[[bytearray], object]) -> Checkpoint:
    """A page of ours, changed behind our back."""
    files = MemoryFiles()
    checkpoint = loaded(files)
    checkpoint.physic_ms = checkpoint.logics_ms = 1 << 40
    checkpoint.confirm_offset, checkpoint.derived_offset = 70, 60
    checkpoint.write(checkpoint.encode())
    page = bytearray(files.read_bytes(PATH))
    change(page)
    files.write_bytes(PATH, page)
    return loaded(files)


@pytest.mark.parametrize("place", range(60))
def test_one_flipped_bit_changes_nothing(place: int) -> None:
    def flip(page: bytearray) -> None:
        page[place] ^= 1 << place % 8

    again = rewritten(flip)
    assert not again.is_distrusted
    assert (again.logics_ms, again.confirm_offset, again.derived_offset) == (1 << 40, 70, 60)
    assert again.changed


@pytest.mark.parametrize("place", [2, 10, 20, 34, 38, 45, 52, 58])
def test_a_page_that_is_not_as_it_was_written_says_nothing(place: int) -> None:
    """Somebody else wrote it, or more than one bit of it is damaged."""

    def change(page: bytearray) -> None:
        page[place] ^= 5

    again = rewritten(change)
    assert again.is_distrusted
    assert (again.min_ms, again.confirm_offset, again.derived_offset) == (0, 0, -1)
