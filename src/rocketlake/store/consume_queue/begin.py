"""Where a consume queue begins when its oldest records have expired.

Owns        the search for the first entry whose record is still in the log; how far one damaged entry may mislead it.
Must not know   files, readers, how older entries are deleted.

Physical offsets rise from entry to entry, so the search halves. One damaged entry that the search looks at may lead it
astray, and all the sound ones before it would count as expired: messages that nobody reads, in files that retention
deletes. So the entries on either side of the place it found are asked as well: one that is out of order is damaged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER, FILLER_SIZE, unpack_entries
from rocketlake.store.mapped_file import Bytes

__all__ = ["QueueBegin", "is_sound"]

_CHUNK_ENTRIES = 4096
_WITNESSES = 4
"""Sound entries on either side that are asked."""
_NEAR = 16
"""How far they are looked for."""
_BEHIND_ALL = PhysicalOffset(2**63 - 1)

Place = tuple[QueueOffset, PhysicalOffset]
"""Queue offset and physical offset of a sound entry."""


class QueueBegin:
    """One search in the entries of a queue that end before `end`; `packed` gives the bytes of some of one file."""

    def __init__(
        self, packed: Callable[[QueueOffset, int], Bytes], end: QueueOffset, min_physical: PhysicalOffset
    ) -> None:
        self._packed = packed
        self._end = end
        self._min = min_physical

    def find(self, low: QueueOffset) -> QueueOffset:
        """First queue offset from `low` on whose record starts at or behind the log's begin; the end without one."""
        high = self._end
        found = self._search(low, high)
        while low < high:
            before = self._before(low, found)
            near = before + self._behind(found)
            begin = found if _rises(near) else self._begin_near(near)
            if begin is None:
                low = near[-1][0] + 1
            elif before and begin == near[0][0]:
                high = begin
            else:
                return self._first_sound(begin, self._end)[0]
            found = self._search(low, high)
        return self._first_sound(found, self._end)[0]

    def _begin_near(self, near: list[Place]) -> QueueOffset | None:
        """The begin among entries of which one is damaged, None if all have expired.

        Where it cannot be told which one, or whether that one has expired: the first that may be alive.
        """
        begins = []
        for number in range(len(near)):
            others = near[:number] + near[number + 1 :]
            if _rises(others):
                expired = sum(physical < self._min for _offset, physical in others)
                behind = expired + (number < expired)
                begins.append(near[behind][0] if behind < len(near) else None)
        return min((begin for begin in begins if begin is not None), default=None if begins else near[0][0])

    def _search(self, low: QueueOffset, high: QueueOffset) -> QueueOffset:
        while low < high:
            middle = low + (high - low) // 2
            sound, physical_offset = self._first_sound(middle, high)
            if physical_offset >= self._min:
                high = middle
            else:
                low = sound + 1
        return low

    def _first_sound(self, offset: QueueOffset, end: QueueOffset) -> Place:
        """The first entry from `offset` on that stands for a record.

        If there is none before `end`: `end`, and what lies there counts as behind every physical offset.
        """
        wanted = 1  # mostly the first entry is sound
        while offset < end:
            data = self._packed(offset, min(wanted, end - offset))
            wanted = _CHUNK_ENTRIES
            if not data:
                break
            count = len(data) // ENTRY_SIZE
            if data != FILLER * count and (places := _places(offset, data)):
                return places[0]
            offset += count
        return end, _BEHIND_ALL

    def _before(self, low: QueueOffset, offset: QueueOffset) -> list[Place]:
        """The nearest sound entries before a queue offset, in order."""
        first = max(low, offset - _NEAR)
        return self._near(first, offset - first)[-_WITNESSES:]

    def _behind(self, offset: QueueOffset) -> list[Place]:
        """The nearest sound entries from a queue offset on."""
        return self._near(offset, min(_NEAR, self._end - offset))[:_WITNESSES]

    def _near(self, offset: QueueOffset, count: int) -> list[Place]:
        places: list[Place] = []
        while count > 0 and (data := self._packed(offset, count)):
            places += _places(offset, data)
            taken = len(data) // ENTRY_SIZE
            offset, count = offset + taken, count - taken
        return places


def is_sound(physical_offset: PhysicalOffset, size: int) -> bool:
    """True if this can be the entry of a record."""
    return physical_offset >= 0 and 0 < size < FILLER_SIZE


def _places(offset: QueueOffset, data: Bytes) -> list[Place]:
    return [
        (offset + number, physical_offset)
        for number, (physical_offset, size, _tag_code) in enumerate(unpack_entries(data))
        if is_sound(physical_offset, size)
    ]


def _rises(places: list[Place]) -> bool:
    return all(one[1] < next_one[1] for one, next_one in itertools.pairwise(places))
