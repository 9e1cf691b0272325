"""Moves the place up to which the table counts over log that has no marks, on a slave whose master does not tell it.

Owns        the search for the bytes of a mark in the log of a slave, when it is made.
Must not know   what a mark means, how records are counted (rebuild.py).

A slave of ours gets the table, and with it the place, at least once for 64 MiB of log. Apache's master has no such
table. A slave that becomes the master in its place would read the log from the first byte that it copied, minutes for
100 GB, while nobody takes messages.

The place moves only over bytes that are on disk, up to where a record ends, and never over a mark: a batch may have its
end behind it. From there on the log is read when this broker becomes the master.
"""

from __future__ import annotations

from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.producer_sequences.rebuild import MARK
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["UnmarkedLog"]

_LOOK_SECONDS = 1.0
_FAR_BYTES = 128 << 20
"""Twice as much as lies between two tables of our own master."""
_PIECE = 1 << 20


class UnmarkedLog(Service):
    """Runs on a slave."""

    def __init__(
        self, table: ProducerSequences, store: MessageStore, clock: Clock, far_bytes: int = _FAR_BYTES
    ) -> None:
        """`far_bytes`: of log behind the table's place that are not looked at."""
        super().__init__("unmarked-log", clock)
        self._table = table
        self._store = store
        self._far_bytes = far_bytes
        self._marked_from: tuple[int, int] | None = None
        """The place of the table behind which a mark was found, and how often the log had been cut."""

    async def start(self) -> None:
        """Begin to look."""
        await super().start()
        self._marked_from = None
        self.keep("looking", self._look_next)

    async def _look_next(self) -> None:
        await self._clock.sleep(_LOOK_SECONDS)
        start, cuts, end = self._table.log_offset, self._table.cuts, self._store.dispatched_offset
        if start is None or end - start < self._far_bytes or (start, cuts) == self._marked_from:
            return
        if await self._has_mark(PhysicalOffset(start), end):
            self._marked_from = start, cuts
            return
        while self._store.flushed_offset < end and self._table.cuts == cuts:
            await self._clock.sleep(_LOOK_SECONDS)
        if (self._table.log_offset, self._table.cuts) == (start, cuts):  # else other bytes may lie there now
            self._table.pass_unmarked(end)

    async def _has_mark(self, start: PhysicalOffset, end: PhysicalOffset) -> bool:
        """True if the bytes of a mark lie in this part of the log, as a mark or in a body."""
        at = begin = start
        while at < end:
            part = await self._store.read(partial(self._store.log_part, begin, _PIECE))
            if part is None:
                return False
            if MARK in bytes(part.view):
                return True
            reached = PhysicalOffset(part.start + len(part.view))
            if at < reached < part.file_end:
                at, begin = reached, PhysicalOffset(max(start, reached - len(MARK)))  # a mark may lie across two pieces
            else:
                at = begin = part.file_end  # no record lies across two files
            await self._clock.sleep(0)
        return False
