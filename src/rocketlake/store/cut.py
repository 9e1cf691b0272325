"""Take back the end of the log, and the entries of queues and key index that were made of it.

Owns        which parts a cut touches, and in which order.
Must not know   why the log is cut: a start found a torn end, or a replica's new master never had these records.

A cut of a log that is open comes in three steps. The workers that make files end what they have begun. Then all
positions change in one turn of the loop: no reader meets a store that is half cut. Then a worker syncs the queues.
Nothing may be appended before that: a power cut could bring back entries that lead to other records.

Invariant: a kill or a power cut at any step leaves a store that the next start recovers, to an end at or behind the
cut. First the checkpoint and the noted ends of the queues take back what they promise; then queues and index lose their
ends, which the log could still give back; then the log, its newest file first.
Invariant: a view that a reader holds keeps its bytes (mapped_file.py, `made_anew`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Millis
from rocketlake.base.errors import StoreError
from rocketlake.base.worker import run_on
from rocketlake.codec.record_layout import MAGIC_BLANK
from rocketlake.model.positions import EntryPosition, PhysicalOffset
from rocketlake.store.commit_log import RECORD_HEAD_BYTES, CommitLog, record_bytes
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.mapped_file_list import FlushJob
from rocketlake.store.parts import StoreParts
from rocketlake.store.unconfirmed import Unconfirmed

__all__ = ["Cut", "CutRefused", "cut_files"]

_MAGIC_BLANK = MAGIC_BLANK.to_bytes(4, "big", signed=True)


class CutRefused(StoreError):
    """The log cannot be cut there; nothing was changed."""


def cut_files(
    log: CommitLog, table: ConsumeQueueTable, index: KeyIndex, end: PhysicalOffset, *, is_open: bool = False
) -> list[FlushJob[EntryPosition]]:
    """Cut queues, index and log at `end`, a place between two records. Raises OSError, StoreError.

    With `is_open` readers may hold views, and the queues are safe only when the jobs that are given back are done.
    """
    jobs = table.truncate_after(end, safe=not is_open)
    index.truncate_after(end)
    log.cut(end, is_read=is_open)
    return jobs


class Cut:
    """Cuts of one open store."""

    def __init__(self, parts: StoreParts, after_cut: Sequence[Callable[[PhysicalOffset], object]]) -> None:
        """`after_cut` are called with the new end, in the turn in which the log is cut."""
        self.log = parts.log
        self.table = parts.queues
        self.index = parts.index
        self.dispatch = parts.dispatch
        self.deletion = parts.deletion
        self.checkpoint = parts.checkpoint
        self.ends = parts.ends
        self.residency = parts.residency
        self.durability = parts.durability
        self.sync = parts.sync
        self._unconfirmed = Unconfirmed(parts)
        self._worker = parts.workers["queues"]
        self._makers = parts.workers["queue-files"], parts.workers["files"]
        self._late_files = parts.late_files
        self._after_cut = after_cut

    def check(self, end: PhysicalOffset) -> None:
        """Raises CutRefused if the log cannot be cut there."""
        log, confirmed = self.log, self.durability.confirmed.value
        log.commit()
        is_border = end == log.max_offset or 0 <= end == self.checkpoint.damaged_from
        if not is_border and not self._is_between_records(end):
            raise CutRefused(
                f"the log cannot be cut at {end}: no sound record starts there",
                offset=end,
                hint=f"cut where a record starts, from {log.min_offset} to {log.max_offset}",
            )
        if end < confirmed:
            raise CutRefused(
                f"the log cannot be cut at {end}: what lies before {confirmed} is confirmed",
                hint="empty the store of this replica and have it filled anew: its master never had what is confirmed",
            )

    def _is_between_records(self, end: PhysicalOffset) -> bool:
        head = self.log.view(end, len(_MAGIC_BLANK) * 2)
        if head is not None and head[4:8] == _MAGIC_BLANK:
            return True
        head = self.log.view(end, RECORD_HEAD_BYTES)
        record = None if head is None else self.log.view(end, record_bytes(head, end))
        return record is not None and bool(scan(record, end, True, ())[0])

    async def run(self, end: PhysicalOffset) -> None:
        """Cut at `end`; nothing may be appended before this returns. Raises CutRefused, OSError, StoreError.

        After the last two the store must not be appended to; the next start finds out how far the cut came.
        """
        with contextlib.ExitStack() as here:
            for late in self._late_files:
                here.enter_context(late.made_here())
            for worker in self._makers:
                await run_on(worker, bool)  # no file is being made any more, which could lie behind the end
            self.check(end)  # meanwhile more may be confirmed
            jobs = self._begin(end)
        for heard in self._after_cut:
            call(heard, end)
        noted: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.deletion.cut(end, noted.set_result)
        await run_on(self._worker, lambda: _run_all(jobs))
        for job in jobs:
            job.done()
        error = await noted
        if error is not None:
            raise error

    def _begin(self, end: PhysicalOffset) -> Sequence[FlushJob[EntryPosition]]:
        """All changes of positions; the jobs are the syncs of the queues."""
        store_ms = max(Millis(0), self.log.store_ms_at(end))
        self.checkpoint.cut(end, store_ms)
        self.ends.cut()
        self.dispatch.cut(end)
        jobs = cut_files(self.log, self.table, self.index, end, is_open=True)
        self.log.last_store_ms = min(self.log.last_store_ms, store_ms)
        self.dispatch.last_store_ms = min(self.dispatch.last_store_ms, store_ms)
        self.sync.safe_store_ms = min(self.sync.safe_store_ms, max(Millis(0), store_ms - 1))
        self.index.safe_ms = min(self.index.safe_ms, max(Millis(0), store_ms - 1))
        self._unconfirmed.number()
        self.residency.forget()
        self.durability.set_back(end)
        return jobs


def _run_all(jobs: Sequence[FlushJob[EntryPosition]]) -> None:
    for job in jobs:
        job.run()
