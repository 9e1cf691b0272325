"""The units of one tick that wait for their delivery, three numbers each: ten million take 240 MB.

Owns        the form of a row, which kernels read; the order: the next one is the last.
Must not know   where units lie, what is delivered.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from rocketlake.store.timer.layout import NOWHERE, Unit

__all__ = ["ROW_WORDS", "UnitStack", "unit_rows"]

ROW_WORDS = 3
"""Of a row: physical offset, due_ms, size and bits in one number."""


class UnitStack:
    """A stack of units, without what the timer log alone needs of them."""

    def __init__(self) -> None:
        self.rows = array("q")
        """Three numbers a unit."""

    def __len__(self) -> int:
        return len(self.rows) // ROW_WORDS

    def push(self, rows: array[int]) -> None:
        """Put rows on it."""
        self.rows.extend(rows)

    def last(self) -> Unit:
        """The next unit. ValueError if there is none."""
        physical_offset, due_ms, size_and_bits = self.rows[-ROW_WORDS:]
        return Unit(NOWHERE, size_and_bits & 0xFF, due_ms, physical_offset, size_and_bits >> 8)

    def drop(self, count: int) -> None:
        """Take the next units away."""
        if count:
            del self.rows[-ROW_WORDS * count :]


def unit_rows(units: Iterable[Unit]) -> array[int]:
    """The rows of units."""
    rows = array("q")
    for unit in units:
        rows.extend((unit.physical_offset, unit.due_ms, unit.size << 8 | unit.bits))
    return rows
