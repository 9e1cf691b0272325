"""The newest entries of a queue, in memory until there are enough of them for one write.

Owns        the tail's bytes, how many all tails hold together, in which order they began, which queues have written.
Must not know   files; how an entry is made; when a tail is written.

Without tails a broker with thousands of queues would touch a file for every message. Records whose entries a crash
takes away are dispatched again from the checkpoint, which moves only when all tails are in their files and synced.

Twin: tail.pxd.
"""

from __future__ import annotations

from collections import OrderedDict

from rocketlake.model.positions import PhysicalOffset, QueueOffset

__all__ = ["QueueTail", "Tails"]

_ENTRY_SIZE = 20  # a private copy: a twin may not share constants (docs/internals/compiled_twins.md)


class Tails:
    """What the tails of all queues hold together."""

    __slots__ = ("bytes_max", "held", "queues", "written")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` 0: nothing is held, every entry is written at once."""
        self.bytes_max = bytes_max
        self.held = 0
        """Bytes in all tails."""
        self.queues: OrderedDict[QueueTail, None] = OrderedDict()
        """Queues that have a tail; the one that began first comes first."""
        self.written: dict[QueueTail, None] = {}
        """Queues whose files got entries since a look found no sync due; in order, so that simulations repeat."""

    @property
    def is_over(self) -> bool:
        """True when some tail must be written."""
        return self.held > self.bytes_max


class QueueTail:
    """The end of a queue: its offsets, and the entries that are in no file yet."""

    __slots__ = ("max_offset", "max_physical_offset", "next_offset", "tail", "tail_room", "tails")

    def __init__(self, tails: Tails) -> None:
        self.max_offset = QueueOffset(0)
        """Queue offset behind the last entry."""
        self.next_offset = QueueOffset(0)
        """Queue offset for the next message to be appended to the log (>= `max_offset`)."""
        self.max_physical_offset = PhysicalOffset(-1)
        """End of the record of the last entry, -1 without one."""
        self.tails = tails
        self.tail = bytearray()
        self.tail_room = 0
        """Bytes the tail still takes: its last entry must fit into the last file."""

    def take_run(self, offset: QueueOffset, entries: bytes, end_physical: PhysicalOffset) -> bool:
        """Take the entries of new records; False (and nothing taken) if they are not the next, or there is no room."""
        size = len(entries)
        if size > self.tail_room or offset != self.max_offset or size < _ENTRY_SIZE:
            return False
        first = 0
        for index in range(8):
            first = first << 8 | entries[index]
        if first < self.max_physical_offset:
            return False
        if not self.tail:
            self.tails.queues[self] = None
        self.tail += entries
        self.tails.held += size
        self.tail_room -= size
        self.max_offset = offset + size // _ENTRY_SIZE
        self.max_physical_offset = end_physical
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset
        return True

    def write_tail(self) -> None:
        """Carry the tail into the file. Raises OSError, StoreError; it may be tried again."""
        raise NotImplementedError

    def tail_written(self, size: int) -> None:
        """The first `size` bytes of the tail are in a file."""
        if size < len(self.tail):
            self.tails.held -= size
            self.tail = self.tail[size:]
        else:
            self.drop_tail()

    def drop_tail(self) -> None:
        """Forget the tail: its entries are in the file, or its queue is deleted."""
        if self.tail:
            self.tails.held -= len(self.tail)
            del self.tails.queues[self]
            self.tail = bytearray()
