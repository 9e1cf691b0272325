"""The duties of a store while it is open: dispatch, flush, commit, checkpoint, retention, the checks of index and log.

Owns        the services behind these duties, and the calls by which they use the parts; the look whether the files of
            the log are still there, and what a lost one means for puts and reads.
Must not know   puts and reads, how the store is opened (opening.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker, run_on
from rocketlake.model.positions import EntryPosition, PhysicalOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.consume_queue.ends import DAMAGED_INDEX, NO_INDEX, IndexEnd
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.flush import PoolCommit, Soon, TimedFlush
from rocketlake.store.key_index.check import IndexCheck
from rocketlake.store.late_files import NotSynced
from rocketlake.store.mapped_file import LogFile, MappedFile
from rocketlake.store.mapped_file_list import cure_of_a_cut
from rocketlake.store.parts import StoreParts
from rocketlake.store.queue_flush import CheckpointWriter, QueueFlush, SyncJob
from rocketlake.store.retention import Removable, Retention

__all__ = ["LogWatch", "Upkeep"]

_log = get_logger(__name__)

_LOOK_SECONDS = 1.0
_GONE = -1


class Upkeep:
    """The duties of one store."""

    def __init__(self, parts: StoreParts) -> None:
        self.commit_failure = ""
        """Why the write pool cannot be carried into the files; "" while all is well."""
        self.on_index_damage: Callable[[str], object] = bool
        """Hears once that the key index is damaged, and where."""
        self.config = parts.config
        self.log = parts.log
        self.queues = parts.queues
        self.index = parts.index
        self.dispatch = parts.dispatch
        self.checkpoint = parts.checkpoint
        self.durability = parts.durability
        self._late = parts.late
        self._late_files = parts.late_files
        self._disk_wait = parts.disk_wait
        self._residency = parts.residency
        self._ends = parts.ends
        self._deletion = parts.deletion
        self._slow = parts.slow
        self._sync = parts.sync
        self._index_damage = ""
        self._dispatch_soon = Soon(self.dispatch_readable)
        self.durability.on_readable = self.dispatch_readable
        self.index.on_damage = self._index_damaged
        self._build_services(parts)
        self.wake = self._after_append()
        """Called after each append."""
        self._committed: Callable[[], object] = bool
        """Called when the write pool was carried into the files."""

    def _build_services(self, parts: StoreParts) -> None:
        config, clock, workers, paths, log = parts.config, parts.clock, parts.workers, parts.paths, parts.log
        self._timed = TimedFlush(parts.sync, config, clock)
        self._pool_commit = PoolCommit(self.commit_pool, config, clock)
        self.retention = Retention(
            log.list,
            [paths.commit_log, paths.root],
            config,
            files=parts.disk,
            clock=clock,
            worker=workers["delete"],
            drop_below=self._drop_below,
            derived=lambda: self.checkpoint.derived_offset,
        )
        self.retention.after_drop = lambda: self._deletion.log_was_cut(log.list.begin_on_disk)
        self.queue_flush = QueueFlush(
            self.queue_jobs,
            lambda: (self.dispatch.last_store_ms, self.dispatch.position),
            self.checkpoint,
            config,
            clock,
            workers["queues"],
            write_tails=self.queues.write_tails,
        )
        self.queue_flush.after_round = self._dispatch_late
        for late in self._late_files:
            late.on_ready.append(self._dispatch_late)
        parts.late_queue_files.on_ready.append(self.queue_flush.file_ready)
        checkpoint_writer = CheckpointWriter(self.checkpoint, self.note_safe, clock, workers["queues"])
        self.log_watch = LogWatch(log, parts.disk, clock, workers["watch"])
        self.services: list[Service] = [
            self.queue_flush,
            checkpoint_writer,
            self.retention,
            self.log_watch,
            self.durability,
        ]
        if not config.sync_flush:
            self.services.append(self._timed)
        if log.pool is not None:
            self.services.append(self._pool_commit)
            log.on_pool_busy = self._pool_commit.look_soon
        if config.index_enabled:
            self.services.append(IndexCheck(self.index, parts.disk, clock, workers["delete"], self._index_damaged))

    # -- after an append -----------------------------------------------------------------------------------------------

    def _after_append(self) -> Callable[[], object]:
        """The call that brings appended bytes to the disk, by the settings."""
        config = self.config
        if config.sync_flush:
            return Soon(self._sync.start).ask
        if self.log.pool is not None:
            return self._pool_commit.wake
        return self._timed.wake if config.flush_wakes_on_put or not config.flush_timed else bool

    def wake_with(self, call: Callable[[], object] | None) -> Callable[[], object]:
        """What to call after each append, so that `call` hears of readable bytes."""
        wake = self.wake
        if self.log.pool is not None:
            self._committed = call or bool
            return wake
        return wake if call is None else lambda: (wake(), call())

    def dispatch_readable(self) -> None:
        """Dispatch the records that may be read, a bounded piece now and the rest in the next turns."""
        if self.dispatch.run(self.durability.readable_end) and not self.dispatch.error:
            self._dispatch_soon.ask()
        elif isinstance(self.dispatch.late, NotSynced):
            # If no round of flushes comes any more, messages must not be taken.
            self.dispatch.error = self.dispatch.error or self.queue_flush.failure
            self.queue_flush.flush(thorough=False)

    def _dispatch_late(self) -> None:
        """A file is ready, or queues were synced: the next record may be dispatched."""
        if self.dispatch.late is not None:
            self._dispatch_soon.ask()

    def retry_dispatch(self) -> None:
        if self._late.are_open:
            self._late.retry()
            if not self._late.are_open:
                _log.warning("there is room on the disk again: all that the start left undone is done")
        for late in self._late_files:
            late.retry()
        self.log.allocate.retry()
        if self.dispatch.error or self.dispatch.late is not None or self._late.are_open:
            self.dispatch_readable()
        self._deletion.retry()

    def commit_pool(self, least_pages: int = 0) -> None:
        """Carry the write pool into the files. Raises OSError; puts are refused until it works again."""
        log, began, committed = self.log.list, self._slow.seconds(), self.log.list.max_offset
        try:
            self.log.commit(least_pages)
        except OSError as error:
            self.commit_failure = f"the write pool cannot be committed: {error}"
            raise
        self._slow.note("commit", self._slow.seconds() - began, log.max_offset - committed, log.max_offset)
        self.commit_failure = ""
        self._timed.wake()
        self.dispatch_readable()
        self._committed()

    def begin_pool(self) -> None:
        """Lock the write buffers in memory; say what they cost."""
        config = self.config
        if self.log.pool is not None:
            _log.warning(
                "transientStorePoolEnable: messages are acknowledged before they are in a file; if this process is"
                " killed, those of the last %d ms are lost (commitIntervalCommitLog, commitCommitLogThoroughInterval)",
                config.commit_interval_ms + config.commit_thorough_interval_ms,
            )
            if trouble := self.log.pool.lock():
                _log.warning("transientStorePoolEnable: %s", trouble)
        elif config.write_pool_enabled:
            _log.warning("transientStorePoolEnable has no effect with flushDiskType=SYNC_FLUSH")

    # -- disk ----------------------------------------------------------------------------------------------------------

    def queue_jobs(self, least_pages: int) -> Iterator[SyncJob | None]:
        if least_pages:
            yield from self.queues.to_flush(least_pages)
            return
        has_changed = False
        index = self.index.to_flush()
        safe_physical = index[0].end_physical if index else self.index.safe_physical
        for job in chain(self.queues.to_flush(), index):
            has_changed = has_changed or job is not None
            yield job
        if (has_changed or self._ends.is_behind) and not self._late.are_open:
            yield from self._ends.job(self.index_summary(safe_physical))
        self._ends.is_behind = has_changed

    def _drop_below(self, min_physical: PhysicalOffset) -> Iterator[Removable]:
        yield from self.index.delete_before(min_physical)
        self._drop_queue_files(min_physical)

    def _drop_queue_files(self, min_physical: PhysicalOffset) -> None:
        """Queue files below the start of the log; entries that are not in memory are brought first."""
        dropped: list[MappedFile[EntryPosition]] = []
        try:
            with self._disk_wait.none():
                for mapped in self.queues.delete_before(min_physical):
                    dropped.append(mapped)
        except NotInMemory as cold:
            self._residency.load(cold.parts, lambda error: self._drop_again(min_physical, error))
        finally:
            self._deletion.remove_files(dropped)

    def _drop_again(self, min_physical: PhysicalOffset, error: Exception | None) -> None:
        try:
            if error is not None:
                raise error
            self._drop_queue_files(min_physical)
        except (OSError, StoreError) as problem:
            _log.warning("queue files of expired messages stay for now, the next round tries again: %s", problem)
            self.retention.follow_again()

    def note_safe(self) -> None:
        """Bring the checkpoint's numbers up to date, except that of the queues, which QueueFlush sets."""
        checkpoint = self.checkpoint
        checkpoint.confirm_offset = self.log.list.flushed_offset
        checkpoint.index_ms = self.index.safe_ms
        if checkpoint.confirmed >= 0:
            # What is confirmed may end in a record, what is dispatched never does.
            checkpoint.confirmed = PhysicalOffset(min(self.durability.confirmed.value, self.dispatch.position))
        if self._sync.safe_store_ms:
            checkpoint.physic_ms = self._sync.safe_store_ms

    def index_summary(self, safe_physical: PhysicalOffset) -> IndexEnd:
        """The extent of the key index for `queueEnds`: a start that finds less builds it again from the whole log."""
        if not self.config.index_enabled:
            return NO_INDEX
        if self._index_damage:
            return DAMAGED_INDEX
        files, entries, end_physical = self.index.summary
        return files, entries, min(end_physical, safe_physical)

    def _index_damaged(self, path: Path, what: str) -> None:
        """A search or the check of the index found damage."""
        if not self._index_damage:
            self._index_damage = f"the key index file {path} is damaged, restart to have it built again: {what}"
            _log.error("%s; until then some messages are not found by their key", self._index_damage)
            self.on_index_damage(self._index_damage)
            self._ends.is_behind = True


class LogWatch(Service):
    """Looks each second whether the files of the log are still those on the disk: a hand may remove or cut one.

    A removed file can still be written and synced, and nothing of it outlives the process: so puts must end. A look
    behind the end of a file that was cut kills the process (SIGBUS): so readers must not come there.
    """

    def __init__(self, log: CommitLog, files: Files, clock: Clock, worker: Worker) -> None:
        super().__init__("log-watch", clock)
        self._log = log
        self._files = files
        self._worker = worker
        self._lost: set[LogFile] = set()

    async def start(self) -> None:
        """Begin the looks."""
        await super().start()
        self.every("look", _LOOK_SECONDS, self.look)

    async def look(self) -> None:
        """One look at all files. After a loss the log takes no more records, until the next start. Raises OSError."""
        files = [mapped for mapped in self._log.list.files if mapped not in self._lost]
        suspects = await run_on(self._worker, lambda: [mapped for mapped in files if self._length(mapped) is not None])
        # Meanwhile the store itself may have dropped, cut or mended one: only this thread knows.
        files = self._log.list.files if suspects else []
        lost = [
            (mapped, length) for mapped in suspects if mapped in files and (length := self._length(mapped)) is not None
        ]
        for mapped, length in lost:
            self._lost.add(mapped)
            if length != _GONE:
                mapped.was_cut(length)
        if lost:
            self._log.broken = self._log.broken or str(_loss(lost))

    def _length(self, mapped: LogFile) -> int | None:
        """The length on disk, _GONE without a file of this name; None if all is well."""
        try:
            length = self._files.size(mapped.path)
        except (FileNotFoundError, NotADirectoryError):
            return _GONE
        return length if length < mapped.size else None


def _loss(lost: Sequence[tuple[LogFile, int]]) -> StoreError:
    mapped, length = lost[0]
    others = f", and {len(lost) - 1} others are lost, too" if len(lost) > 1 else ""
    if length == _GONE:
        return StoreError(
            f"a file of the log was removed or moved away while the broker runs{others}",
            path=str(mapped.path),
            hint=f"move it back, or copy it from /proc/{os.getpid()}/fd before the broker stops; then restart",
        )
    return StoreError(
        f"a file of the log was cut to {length} bytes while the broker runs{others}",
        path=str(mapped.path),
        hint=f"stop the broker, {cure_of_a_cut(str(mapped.path), mapped.size)}",
    )
