"""How a store is opened and closed: lock, load, recover; flush everything, say that the stop was a clean one.

Owns        the order of these steps, the files `lock` and `abort`, the steps that wait when the disk is full.
Must not know   how a part loads or recovers itself, which services run in between.

Invariant: `abort` is there from the first change of a file on, until everything is on disk and agrees.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rocketlake.base.clock import Millis
from rocketlake.base.disk.seam import Closeable, is_no_room
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import run_on
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.parts import StoreParts
from rocketlake.store.recovery import Recovery
from rocketlake.store.slow_work import Progress
from rocketlake.store.unconfirmed import Unconfirmed
from rocketlake.store.upkeep import Upkeep

__all__ = ["Opening"]

_log = get_logger(__name__)

_FLUSH_SLICE = 16
"""Queues synced by a stop before it looks at the time."""
_TOGETHER = 256
"""So many queues are worth a sync of the whole disk."""


class Opening:
    """Opens and closes the parts of one store."""

    def __init__(self, parts: StoreParts, upkeep: Upkeep) -> None:
        self.config = parts.config
        self.log = parts.log
        self.queues = parts.queues
        self.index = parts.index
        self.dispatch = parts.dispatch
        self.checkpoint = parts.checkpoint
        self.durability = parts.durability
        self._parts = parts
        self._upkeep = upkeep
        self._clock = parts.clock
        self._late = parts.late
        self._ends = parts.ends
        self._deletion = parts.deletion
        self._lock: Closeable | None = None
        self._is_open = False
        self._recovery = Recovery(parts, self._distrust)
        self._unconfirmed = Unconfirmed(parts)

    # -- opening -------------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes from the folder, once."""
        if self._lock is not None:
            return
        disk, paths = self._parts.disk, self._parts.paths
        disk.make_dirs(paths.root)
        if not disk.exists(paths.lock):
            self._write_mark(paths.lock, b"lock")
        self._lock = disk.lock(paths.lock)

    def unlock(self) -> None:
        """Let them in again."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def open(self) -> None:
        self.lock()
        disk, paths = self._parts.disk, self._parts.paths
        disk.make_dirs(paths.commit_log)
        clean = not disk.exists(paths.abort)
        self.checkpoint.load()
        self.log.list.remove_unfinished_cut()
        self.log.list.load(safe_end=None if clean else self.checkpoint.confirm_offset)
        torn = self.queues.load(last_exit_ok=clean, before_cut=self._distrust)
        if self.config.index_enabled:
            index_ms = self.checkpoint.index_ms
            self.dispatch.waits_for_index = True
            self._late.then("the key index cannot be mended", lambda: self._load_index(clean, index_ms))
        # From here on files change: a crash during the recovery must be recovered from, too.
        self._write_abort()
        gone = self._deletion.load()
        self._recovery.run(clean=clean, torn=[queue for queue in torn if self.queues.has(queue)], gone=gone)
        self.queues.min_physical = self.log.min_offset
        self.durability.flushed.advance(self.log.list.flushed_offset)
        self._unconfirmed.hide(self._recovery.damaged_from)
        self._late.then("deleted topics and the ends of the queues cannot be noted", self._write_known)
        self._is_open = True
        self._make_first_files()
        if self._late.are_open:
            _log.error("%s; messages can be read, and are taken as soon as there is room", self._late.reason)

    def _make_first_files(self) -> None:
        """A new store: the files for its first message, so that nobody waits for them. A full disk may refuse."""
        with contextlib.suppress(OSError, StoreError):
            self.log.make_first()
            if self.config.index_enabled and not self._late.are_open:
                self.index.make_first()

    def _load_index(self, clean: bool, index_ms: Millis) -> bool:
        self.index.load(last_exit_ok=clean, index_ms=index_ms, before_cut=self._distrust)
        if self._is_open:  # it is late, and the end of the log was found without it
            self._recovery.index_came_late()
            self.index.truncate_after(self.log.list.wrote_offset)
        self.dispatch.waits_for_index = False
        return True

    def _write_known(self) -> bool:
        self._deletion.fit(self.log.min_offset, self.log.list.wrote_offset)
        self.checkpoint.write(self.checkpoint.encode())
        self._ends.write(list(self._ends.lines()), self._upkeep.index_summary(self.index.safe_physical), is_exact=False)
        return True

    def _write_abort(self) -> None:
        self._write_mark(self._parts.paths.abort, str(os.getpid()).encode())
        self._parts.disk.sync_dir(self._parts.paths.root)

    def _write_mark(self, path: Path, content: bytes) -> None:
        """A file of which only matters that it is there; a full disk may keep it empty."""
        try:
            self._parts.disk.write_bytes(path, content)
        except OSError as error:
            if not (is_no_room(error) and self._parts.disk.exists(path)):
                raise

    def _distrust(self) -> None:
        """Queues or index are about to lose something that only the log has: a crash from now on walks all of it."""
        self._write_abort()
        self.checkpoint.derived_offset = PhysicalOffset(0)
        self.checkpoint.write(self.checkpoint.encode())

    # -- closing -------------------------------------------------------------------------------------------------------

    async def flush_all(self) -> None:
        self.log.commit()
        self.log.list.flush()
        self.durability.flushed.advance(self.log.list.flushed_offset)
        # As the next start would, whatever the role asks of reads.
        self.dispatch.run_all(self.log.max_offset)
        self._late.retry()
        if self._late.are_open:
            raise StoreError(self._late.reason, path=str(self._parts.paths.root))
        self._deletion.save()
        await self._flush_queues()
        self.index.flush()
        checkpoint = self.checkpoint
        self._upkeep.note_safe()
        if self.log.last_store_ms:
            checkpoint.physic_ms = checkpoint.logics_ms = self.log.last_store_ms
        checkpoint.derived_offset = self.dispatch.position
        checkpoint.write(checkpoint.encode())
        self.log.allocate.remove_unused()
        self.index.remove_unused()
        if self.dispatch.position < self.log.list.wrote_offset:
            raise StoreError("not all messages are dispatched", offset=self.dispatch.position)
        if self.log.broken:  # a torn write could not be erased, or a cut came to no end: the next start must look at it
            raise StoreError(self.log.broken)
        self._ends.write(
            list(self._ends.lines()), self._upkeep.index_summary(self.index.last_physical_offset), is_exact=True
        )
        self._parts.disk.remove(self._parts.paths.abort)
        self._parts.disk.sync_dir(self._parts.paths.root)

    async def _flush_queues(self) -> None:
        """No longer than `stopFlushMs`: a start builds the rest from the log.

        All tails go into files first. The disk syncs many of them together: one by one, each would wait for the journal
        of the file system.
        """
        deadline = self._clock.monotonic() + self.config.stop_flush_ms / 1000
        progress = Progress(self._clock)
        disk, folder = self._parts.disk, self._parts.paths.root
        count = await self._in_slices(self.queues.write_each(), deadline, progress)
        if count >= _TOGETHER and await run_on(self._parts.workers["watch"], lambda: disk.sync_all(folder)):
            self.queues.were_synced()
        await self._in_slices(self.queues.flush_each(), deadline, progress)

    async def _in_slices(self, steps: Iterator[int], deadline: float, progress: Progress) -> int:
        """Take the steps so that the loop lives; how many they were. Raises StoreError behind the deadline."""
        count = 0
        for left in steps:
            count += 1
            if left % _FLUSH_SLICE:
                continue
            await asyncio.sleep(0)
            if left and self._clock.monotonic() >= deadline:
                raise StoreError(
                    f"{left} consume queues are not on disk after {self.config.stop_flush_ms / 1000:g} s",
                    path=str(self._parts.paths.consume_queue),
                    hint="start again, they are built from the log; raise stopFlushMs for longer stops",
                )
            if progress.is_due():
                _log.info("stopping: %d consume queues are still to be written", left)
        return count

    def release(self) -> None:
        for part in (self.log.list, self.queues, self.index, self.checkpoint, self._lock):
            try:
                if part is not None:
                    part.close()
            except Exception as error:
                _log.warning("cannot close: %r", error)
        self._lock = None
