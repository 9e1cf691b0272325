"""The end of a replica's log that is not confirmed: in the log, with queue offsets of its own, and nobody reads it.

Owns        how a start keeps it from readers, and that its queue offsets are not given out again; that damage which a
            start finds is kept in mind.
Must not know   how a record is confirmed (durability.py says how far), links to replicas.

A start builds the queues from all records of the log: whatever it finds can be read. Of a replica's log the end may
still be taken back by the next master. So its entries go out of queues and index again; dispatch puts them back as far
as more is confirmed. `Durability.demand` must say before the start that the role reads only what is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Millis
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.dispatch_scan import BLANK, END, scan
from rocketlake.store.durability import Stage
from rocketlake.store.log_walk import LogWalk
from rocketlake.store.mapped_file import LogFile
from rocketlake.store.parts import StoreParts

__all__ = ["Unconfirmed"]

_log = get_logger(__name__)
_START = PhysicalOffset(0)
_CHUNK = 1024 * 1024


class Unconfirmed:
    """The unconfirmed end of one log."""

    def __init__(self, parts: StoreParts) -> None:
        self.log = parts.log
        self.table = parts.queues
        self.index = parts.index
        self.dispatch = parts.dispatch
        self.deletions = parts.deletions
        self.checkpoint = parts.checkpoint
        self.ends = parts.ends
        self.durability = parts.durability

    def hide(self, damaged_from: PhysicalOffset | None = None) -> None:
        """At a start, when the log is recovered. Blocks. Raises OSError, StoreError.

        All of a log that was no replica's so far counts as confirmed: it has been read already. `damaged_from`: from
        there on the log lacks what was safe in it once.
        """
        known, end = self.checkpoint.confirmed, self.log.list.wrote_offset
        is_asked = Stage.CONFIRMED in self.durability.demands.reads
        if known > end:
            _log.error("the log ends at %d, but it is confirmed up to %d: this replica has lost messages", end, known)
            damaged_from = end if damaged_from is None else min(damaged_from, end)
        if is_asked and known < 0:
            known = end
        if known >= 0:
            self.checkpoint.confirmed = min(known, end)
            self.durability.advance(Stage.CONFIRMED, self.checkpoint.confirmed)
        if is_asked and damaged_from is not None:
            self._note_damage(damaged_from)
        if is_asked and known < end:
            self._take_back(max(known, self.log.min_offset))

    def _note_damage(self, damaged_from: PhysicalOffset) -> None:
        """Keep it in mind in the write that lowers what is safe: a later start would find nothing wrong."""
        self.checkpoint.note_damage(damaged_from)
        self.checkpoint.write(self.checkpoint.encode())

    def _take_back(self, confirmed: PhysicalOffset) -> None:
        checkpoint = self.checkpoint
        # First what promises these entries: a crash in between must not leave queues that lack what they should have.
        safe_ms = max(Millis(0), self.log.store_ms_at(confirmed) - 1)
        checkpoint.derived_offset = min(checkpoint.derived_offset, confirmed)
        checkpoint.logics_ms, checkpoint.index_ms = (
            min(checkpoint.logics_ms, safe_ms),
            min(checkpoint.index_ms, safe_ms),
        )
        checkpoint.write(checkpoint.encode())
        self.ends.cut()
        self.table.truncate_after(confirmed)
        self.index.truncate_after(confirmed)
        self.index.safe_ms = min(self.index.safe_ms, safe_ms)
        self.dispatch.cut(confirmed)
        self.number()

    def number(self) -> None:
        """Queues go on behind the records that are not dispatched yet: their queue offsets are given out."""
        if self.dispatch.position >= self.log.max_offset:
            return
        for entries in LogWalk(self.log, self.dispatch.position, _START, False, ()).chunks():
            for entry in entries:
                is_dead = self.deletions.is_dead(entry.topic, entry.physical_offset, entry.queue_id)
                if entry.is_queued() and not is_dead:
                    queue = self.table.find_or_make(entry.topic, entry.queue_id)
                    queue.next_offset = max(queue.next_offset, entry.queue_offset + 1)

    def tail_check(self) -> Callable[[], PhysicalOffset]:
        """For a worker: walks over the records that are not dispatched, and gives the end of the last sound one.

        Nothing may be appended while it runs.
        """
        files, start = tuple(self.log.list.files), self.dispatch.position

        def check() -> PhysicalOffset:
            end = start
            for mapped in files:
                if end >= mapped.end:
                    continue
                end = _sound_end(mapped, end - mapped.start)
                if end < mapped.end:
                    break
            return end

        return check


def _sound_end(mapped: LogFile, position: int) -> PhysicalOffset:
    """The physical offset behind the last sound record of a file, from `position` on; its end if a blank closes it."""
    size = _CHUNK
    while position < mapped.wrote:
        end = min(position + size, mapped.wrote)
        _entries, taken, status = scan(mapped.view[position:end], mapped.start + position, True, ())
        position += taken
        if status == BLANK:
            return mapped.end
        if not taken and (status != END or end == mapped.wrote):
            break
        size = _CHUNK if taken else 2 * size
    return mapped.start + position
