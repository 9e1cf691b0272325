"""The chains of a key index file in memory: entries that are not in the file yet, and linking anew after a crash.

Owns        rows of new entries, the heads of slots that changed, in which pieces both go into the file.
Must not know   files, headers, times, when entries are written.

Entries go out by the row. A slot is four bytes anywhere in 20 MB, so slots wait until there are so many that a page of
the file holds several; then they leave page by page, a few at a time between other work, while new ones gather.

Twin: chains.pxd.
"""

from __future__ import annotations

import mmap
import sys
from array import array

from rocketlake.model.positions import PhysicalOffset

__all__ = ["NewEntries", "link_entries"]

# Private copies of layout.py's: a twin may not share constants (docs/internals/compiled_twins.md).
_HEADER_SIZE = 40
_ENTRY_WORDS = 5
_ROW_MAX = 4096
_PAGE = 4096
_PAGE_BITS = 12
_PIECE_PAGES = 16
_CELL_WORDS = 3
_STEP_MAX = 64
_MIX = 0x9E3779B1  # spreads neighbouring slots over the cells
_LOW_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_SWAPS = sys.byteorder == "little"  # the file is big-endian


class NewEntries:
    """Entries put into one file that are not written out. Numbers of entries are the caller's."""

    def __init__(self, slots: int, view: memoryview, held: bytearray, waiting_max: int) -> None:
        """`view` shows the file; `waiting_max` slots may gather before they begin to leave.

        `held`: 1 for each page that the disk holds, up to the last slot. No other page is read: it is zero, and on a
        tmpfs a read would take space (mapped_file.py).
        """
        self.row_count = 0
        """Entries in the row."""
        self.waiting = 0
        """Slots that gather."""
        self._slots = slots
        self._view = view
        self._held = held
        self._waiting_max = max(1, min(waiting_max, slots))
        self._row = array("I", bytes(4 * _ENTRY_WORDS * _ROW_MAX))
        self._words = self._row  # the same memory; the compiled form reads it without Python objects
        # Open addressing: a cell is (slot, number of its newest entry, next cell of the same page, from 1), free while
        # the number is 0. A quarter at least stays free: `waiting` passes the maximum by less than a step.
        cells = 4 * _STEP_MAX
        while cells < 2 * self._waiting_max:
            cells *= 2
        self._mask = cells - 1
        self._pages = _page_of(slots) + 1
        self._cells = _zeros(_CELL_WORDS * cells)
        self._firsts = _zeros(self._pages)  # first cell of each page, from 1; 0 for a page without one
        self._used_pages = 0
        self._leaving = self._cells
        self._leaving_firsts = self._firsts
        self._leaving_pages = 0
        self._leaving_left = 0  # pages that still have to leave
        self._page = 0

    # -- putting -------------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Entries that may be put now: those that fit into the row, and not so many that slots could not leave."""
        return min(_ROW_MAX - self.row_count, _STEP_MAX)

    def put(self, pairs: array[int], begin: int, end: int, number: int, seconds: int) -> int:
        """Add the entries of `pairs[begin:end]` (hash, physical offset, ...), numbered from `number`: a step.

        Before each step `is_late` is asked. Returns how many slots had no entry before.
        """
        data = pairs
        row = self._words
        at = self.row_count * _ENTRY_WORDS
        used = 0
        for index in range(begin, end, 2):
            hash_code = data[index]
            physical = data[index + 1]
            slot = hash_code % self._slots
            previous = self._exchange(slot, number)
            if previous < 0:
                previous = self._settled(slot, number)
            if previous == 0:
                used += 1
            row[at] = hash_code
            row[at + 1] = physical >> 32
            row[at + 2] = physical & _LOW_WORD
            row[at + 3] = seconds
            row[at + 4] = previous
            at += _ENTRY_WORDS
            number += 1
        self.row_count += (end - begin) >> 1
        return used

    def head(self, slot: int, count: int) -> int:
        """Number of the newest entry of a slot, 0 without one; `count` is the number of the next entry."""
        number = self._cells[_probe(self._cells, self._mask, slot) + 1]
        return number if number > 0 else self._settled(slot, count)

    def _exchange(self, slot: int, number: int) -> int:
        """Make `number` the head of a slot; returns the one before, -1 if it does not gather here."""
        cells = self._cells
        found = _probe(cells, self._mask, slot)
        previous = cells[found + 1]
        cells[found + 1] = number
        if previous > 0:
            return previous
        page = _page_of(slot)
        following = self._firsts[page]
        cells[found] = slot
        cells[found + 2] = following
        self._firsts[page] = found + 1
        if following == 0:
            self._used_pages += 1
        self.waiting += 1
        return -1

    def _settled(self, slot: int, count: int) -> int:
        """The head of a slot that does not gather: among those that leave, or in the file."""
        if self._leaving_left > 0:
            number = self._leaving[_probe(self._leaving, self._mask, slot) + 1]
            if number > 0:
                return number
        if self._held[_page_of(slot)] == 0:
            return 0
        position = _HEADER_SIZE + 4 * slot
        view = self._view
        number = view[position] << 24 | view[position + 1] << 16 | view[position + 2] << 8 | view[position + 3]
        return number if 0 < number < count else 0

    # -- writing entries out -------------------------------------------------------------------------------------------

    def row(self) -> bytes:
        """The bytes of the row."""
        words = self._row[: self.row_count * _ENTRY_WORDS]
        if _SWAPS:
            words.byteswap()
        return words.tobytes()

    def row_written(self) -> None:
        """The row is in the file: begin a new one."""
        self.row_count = 0

    # -- writing slots out ---------------------------------------------------------------------------------------------

    @property
    def leaves(self) -> bool:
        """True while slots leave."""
        return self._leaving_left > 0

    @property
    def is_late(self) -> bool:
        """True when slots must leave now, so that all are gone before as many have gathered again."""
        if self._leaving_left == 0:
            return self.waiting >= self._waiting_max
        # Twice as fast as they gather: a piece that was refused leaves time to try again.
        return (self._leaving_pages - self._leaving_left) * self._waiting_max < self._leaving_pages * self.waiting * 2

    def begin_leaving(self) -> None:
        """Have the slots gathered so far leave; only when none do. Their entries must be in the file."""
        self._leaving = self._cells
        self._leaving_firsts = self._firsts
        self._leaving_pages = self._leaving_left = self._used_pages
        self._page = 0
        self._cells = _zeros(_CELL_WORDS * (self._mask + 1))
        self._firsts = _zeros(self._pages)
        self._used_pages = 0
        self.waiting = 0

    def piece(self) -> tuple[int, bytearray]:
        """The next slots to write, as (file position, bytes): changed pages that are neighbours. Only while some leave.

        The same again until `piece_written`.
        """
        first = self._skipped()
        begin = max(first * _PAGE, _HEADER_SIZE)
        end = min(self._behind(first) * _PAGE, _HEADER_SIZE + 4 * self._slots)
        changed = bytearray(end - begin)
        for page in range(first, self._behind(first)):
            if self._held[page] != 0:
                start, stop = max(page * _PAGE, begin), min((page + 1) * _PAGE, end)
                changed[start - begin : stop - begin] = self._view[start:stop]
        self._patch(changed, begin, first)
        return begin, changed

    def _patch(self, target: bytearray, begin: int, first: int) -> None:
        leaving = self._leaving
        for page in range(first, self._behind(first)):
            cell = self._leaving_firsts[page]
            while cell > 0:
                at = cell - 1
                number = leaving[at + 1]
                position = _HEADER_SIZE + 4 * leaving[at] - begin
                target[position] = number >> 24
                target[position + 1] = number >> 16 & 255
                target[position + 2] = number >> 8 & 255
                target[position + 3] = number & 255
                cell = leaving[at + 2]

    def piece_written(self) -> None:
        """The piece is in the file; go on behind it."""
        first = self._skipped()
        self._page = self._behind(first)
        for page in range(first, self._page):
            self._held[page] = 1
        self._leaving_left -= self._page - first
        if self._leaving_left == 0:  # memory need not be held
            self._leaving = self._cells
            self._leaving_firsts = self._firsts

    def _skipped(self) -> int:
        """The next page that changed."""
        page = self._page
        while self._leaving_firsts[page] == 0:
            page += 1
        return page

    def _behind(self, first: int) -> int:
        """The page behind the row of changed pages that begins with `first`, within the length of a piece."""
        page = first + 1
        while page < self._pages and page < first + _PIECE_PAGES and self._leaving_firsts[page] > 0:
            page += 1
        return page


def _page_of(slot: int) -> int:
    return (_HEADER_SIZE + 4 * slot) >> _PAGE_BITS


def _probe(cells: memoryview, mask: int, slot: int) -> int:
    """Where the cell of a slot begins, or the free one it would take."""
    at = (slot * _MIX & _LOW_WORD) >> 7 & mask
    while cells[_CELL_WORDS * at + 1] > 0 and cells[_CELL_WORDS * at] != slot:
        at = at + 1 & mask
    return _CELL_WORDS * at


def _zeros(count: int) -> memoryview:
    """So many numbers, all 0. Pages that are never touched cost nothing, and there is no pause to make them."""
    return memoryview(mmap.mmap(-1, 4 * count)).cast("i")


def link_entries(
    entries: bytes, first: int, last_physical: PhysicalOffset, end_physical: PhysicalOffset, heads: array[int]
) -> tuple[int, PhysicalOffset, int, int, bytes]:
    """Check a run of entries (numbers from `first` on) as they lie on disk after a crash, and link them anew.

    Sound are entries whose physical offsets do not fall and stay below `end_physical`; the first other one ends the
    run, and so does an empty one (a page that never reached the disk). `heads` (one per slot) holds the newest entry
    of each slot so far and is brought up to date.

    Returns (sound entries, last physical offset, seconds of the last, slots that had no entry before, the sound entries
    with right links; empty if all links are right).
    """
    words = array("I")
    words.frombytes(entries)
    if _SWAPS:
        words.byteswap()
    data, newest = words, heads
    slots = len(heads)
    number, seconds, used, at = first, 0, 0, 0
    is_changed = False
    while at + _ENTRY_WORDS <= len(words):
        hash_code, high, after = data[at], data[at + 1], data[at + 3]
        if hash_code >= _SIGN or high >= _SIGN or after >= _SIGN:
            break
        physical: PhysicalOffset = high << 32 | data[at + 2]  # type: ignore[assignment]  # here it comes in
        if not last_physical <= physical < end_physical or (hash_code == 0 and physical == 0):
            break
        slot = hash_code % slots
        if newest[slot] == 0:
            used += 1
        if data[at + 4] != newest[slot]:
            data[at + 4] = newest[slot]
            is_changed = True
        newest[slot] = number
        number += 1
        last_physical = physical
        seconds = after
        at += _ENTRY_WORDS
    linked = b""
    if is_changed:
        kept = words[:at]
        if _SWAPS:
            kept.byteswap()
        linked = kept.tobytes()
    return number - first, last_physical, seconds, used, linked
