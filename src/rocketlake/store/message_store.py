"""The front of the store: put messages, get them back by queue, by position, by key, by time.

Owns        its parts, the order in which they start and stop, whether messages are taken and why not.
Must not know   the network, topic settings, consumer groups, subscriptions.

One thread (the event loop's) owns all state; `Files` calls that may block run on named workers and come back to it.

Reading on: commit_log.py (append), durability.py (when it is safe), dispatch.py (how readers find it), recovery.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rocketlake.base.callbacks import call, raised
from rocketlake.base.clock import Clock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Closeable, Files, is_no_room
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service, stop_each
from rocketlake.base.worker import ThreadWorker, Worker, run_on
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.commit_log import AppendFailed, CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.ends import DAMAGED_INDEX, NO_INDEX, QueueEnds
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.seek import offset_by_time, store_ms_at
from rocketlake.store.consume_queue.table import BadQueueName, ConsumeQueueTable
from rocketlake.store.cut import Cut
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch import Dispatch, perhaps
from rocketlake.store.dispatch_scan import appended_entry, scan
from rocketlake.store.durability import AT_ONCE, Demands, Durability, Stage
from rocketlake.store.fetch import Fetch, MatchRecord, MatchTag
from rocketlake.store.flush import LogSync, PoolCommit, Soon, TimedFlush
from rocketlake.store.key_index.check import IndexCheck
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.late_steps import LateSteps
from rocketlake.store.mapped_file_list import FlushJob
from rocketlake.store.paths import StorePaths
from rocketlake.store.put_checks import batch_items, illegal, refuse
from rocketlake.store.queue_flush import CheckpointWriter, QueueFlush, SyncJob
from rocketlake.store.queue_mend import QueueMend
from rocketlake.store.raw_append import RawAppend
from rocketlake.store.recovery import Recovery
from rocketlake.store.removal import Removal
from rocketlake.store.residency import Residency
from rocketlake.store.results import ColdPart, GetResult, GetStatus, PutMessage, PutResult, PutStatus, QueryResult
from rocketlake.store.retention import Removable, Retention
from rocketlake.store.slow_work import SlowDisk
from rocketlake.store.topic_deletion import Noted, TopicDeletion, unasked

if TYPE_CHECKING:
    from rocketlake.codec import record_run

__all__ = ["MessageStore"]

_log = get_logger(__name__)

_NOT_STARTED = "the store is not started"
_STOPPED = "the store is stopped"
_RETRY_SECONDS = 1.0
_HEALTH_SECONDS = 1.0
_SAY_SECONDS = 5.0
_FLUSH_SLICE = 16
"""Queues synced by a stop before it looks at the time."""
_ZERO_STEP = 256 * 1024
_WORKERS = ("flush", "queues", "files", "delete", "notes", "reads")


class MessageStore(Service):
    """One store folder. `start` before anything else; after `stop` a new object is needed."""

    def __init__(
        self,
        root: Path,
        config: StoreConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        workers: Callable[[str], Worker] = ThreadWorker,
    ) -> None:
        super().__init__("store", clock)
        self.config = config
        self.on_arrival: Callable[[str, int, int, int, int], None] = _nobody_waits
        """(topic, queue id, new max offset, tag code, store ms): called on the loop when a message can be read."""
        self.is_awaited: Callable[[str, int], bool] = perhaps
        """(topic, queue id): true if a request waits at this queue. A run asks once, to skip `on_arrival`."""
        self._disk = files or PosixFiles()
        self._paths = StorePaths(root, Path(config.commit_log_path) if config.commit_log_path else None)
        self._workers = {name: workers(f"store-{name}") for name in _WORKERS}
        self.after_cut: list[Callable[[int], object]] = []
        """Called with the new end of the log when `cut` has taken back what lay behind it."""
        self._closed = _NOT_STARTED
        self._cutting = ""
        """Why nothing is appended while the log is cut."""
        self._commit_failure = ""
        self._index_damage = ""
        self._lock: Closeable | None = None
        self._build_files()
        self._build_services()

    def _build_files(self) -> None:
        config, disk, paths = self.config, self._disk, self._paths
        levels = DelayLevels(config.message_delay_level)
        self._delays_ms = [levels.delay_ms(level) for level in range(1, levels.highest + 1)]
        self.log = CommitLog(paths.commit_log, config, disk, self._workers["files"])
        self.deletions = Deletions(disk, paths.deletions)
        self.queues = ConsumeQueueTable(
            paths.consume_queue,
            disk,
            file_size=config.consume_queue_file_bytes,
            began_anew=self.deletions.begins_anew,
        )
        self.index = KeyIndex(
            paths.index, disk, self._clock, slots=config.index_slots, entries_max=config.index_entries
        )
        self.index.on_damage = self._index_damaged
        self.checkpoint = Checkpoint(disk, paths.checkpoint)
        self._ends = QueueEnds(paths.queue_ends, disk, self.queues)
        self._deletion = TopicDeletion(
            self.queues,
            self._ends,
            self.deletions,
            Removal(disk, paths.removed),
            notes=self._workers["notes"],
            files=self._workers["delete"],
        )
        self.dispatch = Dispatch(
            self.log.list, self.queues, self.index if config.index_enabled else None, self.deletions, self._delays_ms
        )
        self.residency = Residency(disk, self._clock, self._workers["reads"])
        self.fetch = Fetch(self.log, config, self.residency)
        self.fetch.mend = self._mend
        self._queue_mend = QueueMend(self.log, self.deletions, self._delays_ms)
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=self._clock)
        self._late = LateSteps()
        self._recovery = Recovery(
            self.log,
            self.queues,
            self.index,
            self.dispatch,
            self.deletions,
            self.checkpoint,
            self._ends,
            config,
            self._delays_ms,
            self._distrust,
            self._late,
            self._clock,
        )

    def _build_services(self) -> None:
        config, clock, workers = self.config, self._clock, self._workers
        self._slow = SlowDisk(clock)
        log = self.log
        self.durability = Durability(lambda: log.max_offset, clock, is_buffered=log.pool is not None)
        self.durability.demand(own_demands(config))
        self._sync = LogSync(log.list, workers["flush"], self.durability, lambda: log.last_store_ms, self._slow)
        self._sync.zero_step = _ZERO_STEP if config.sync_flush else 0
        self._timed = TimedFlush(self._sync, config, clock)
        self._pool_commit = PoolCommit(self._commit_pool, config, clock)
        self.retention = Retention(
            self.log.list,
            [self._paths.commit_log, self._paths.root],
            config,
            files=self._disk,
            clock=clock,
            worker=workers["delete"],
            drop_below=self._drop_below,
            derived=lambda: self.checkpoint.derived_offset,
        )
        self.retention.after_drop = lambda: self._deletion.log_was_cut(self.log.list.begin_on_disk)
        self._queue_flush = QueueFlush(
            self._queue_jobs,
            lambda: (self.dispatch.last_store_ms, self.dispatch.position),
            self.checkpoint,
            config,
            clock,
            workers["queues"],
        )
        self._raw = RawAppend(self.log, self.dispatch, self._delays_ms)
        self._cut = Cut(
            self.log,
            self.queues,
            self.index,
            self.dispatch,
            self.deletions,
            self.checkpoint,
            self._ends,
            self.residency,
            self.durability,
            self._sync,
        )
        self._services: list[Service] = [
            self._queue_flush,
            CheckpointWriter(self.checkpoint, self._note_safe, clock, workers["queues"]),
            self.retention,
        ]
        self._services.append(self.durability)
        if not config.sync_flush:
            self._services.append(self._timed)
        if self.log.pool is not None:
            self._services.append(self._pool_commit)
            self.log.on_pool_busy = self._pool_commit.look_soon
        self._wake = self._after_append()
        if config.index_enabled:
            check = IndexCheck(self.index, self._disk, clock, workers["delete"], self._index_damaged)
            self._services.append(check)
        self.adopt(*self._services, self.residency)
        self._dispatch_soon = Soon(self._dispatch_readable)
        self.durability.on_readable = self._dispatch_readable

    def _after_append(self) -> Callable[[], object]:
        """What brings the appended bytes to the disk, by the settings."""
        config = self.config
        if config.sync_flush:
            return Soon(self._sync.start).ask
        if self.log.pool is not None:
            return self._pool_commit.wake
        return self._timed.wake if config.flush_wakes_on_put or not config.flush_timed else bool

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Lock, load, recover, begin the background work. Raises StoreError: the cause, the path, the cure."""
        try:
            self._open()
        except OSError as error:
            raise _not_opened(error, self._paths.root) from error
        finally:
            if self._closed:
                self._release()
        self.dispatch.on_arrival = self._arrived
        self.dispatch.is_awaited = self.is_awaited
        await super().start()
        for service in self._services:
            await service.start()
        self.every("dispatch-retry", _RETRY_SECONDS, self._retry_dispatch)
        self._say_pool()
        self._note_health()
        self.every("health", _HEALTH_SECONDS, self._note_health)
        self._deletion.remove_left_over()
        self.log.make_ahead()

    def _say_pool(self) -> None:
        config = self.config
        if self.log.pool is not None:
            _log.warning(
                "transientStorePoolEnable: messages are acknowledged before they are in a file; if this process is"
                " killed, those of the last %d ms are lost (commitIntervalCommitLog, commitCommitLogThoroughInterval)",
                config.commit_interval_ms + config.commit_thorough_interval_ms,
            )
        elif config.write_pool_enabled:
            _log.warning("transientStorePoolEnable has no effect with flushDiskType=SYNC_FLUSH")

    def _open(self) -> None:
        disk, paths = self._disk, self._paths
        disk.make_dirs(paths.root)
        disk.make_dirs(paths.commit_log)
        if not disk.exists(paths.lock):
            self._write_mark(paths.lock, b"lock")
        self._lock = disk.lock(paths.lock)
        clean = not disk.exists(paths.abort)
        self.checkpoint.load()
        self.log.list.remove_unfinished_cut()
        self.log.list.load()
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
        self._late.then("deleted topics and the ends of the queues cannot be noted", self._write_known)
        self._closed = ""
        if self._late.are_open:
            _log.error("%s; messages can be read, and are taken as soon as there is room", self._late.reason)

    def _load_index(self, clean: bool, index_ms: int) -> bool:
        self.index.load(last_exit_ok=clean, index_ms=index_ms)
        if not self._closed:  # it is late, and the end of the log was found without it
            self._recovery.index_came_late()
            self.index.truncate_after(self.log.list.wrote_offset)
        self.dispatch.waits_for_index = False
        return True

    def _write_known(self) -> bool:
        self._deletion.fit(self.log.min_offset, self.log.list.wrote_offset)
        self.checkpoint.write(self.checkpoint.encode())
        self._ends.write(list(self._ends.lines()), self._index_summary(self.index.safe_physical), is_exact=False)
        return True

    def _write_abort(self) -> None:
        self._write_mark(self._paths.abort, str(os.getpid()).encode())
        self._disk.sync_dir(self._paths.root)

    def _write_mark(self, path: Path, content: bytes) -> None:
        """A file of which only matters that it is there; a full disk may keep it empty."""
        try:
            self._disk.write_bytes(path, content)
        except OSError as error:
            if not (is_no_room(error) and self._disk.exists(path)):
                raise

    def _distrust(self) -> None:
        """Queues or index are about to lose something that only the log has: a crash from now on walks all of it."""
        self._write_abort()
        self.checkpoint.derived_offset = 0
        self.checkpoint.write(self.checkpoint.encode())

    def _index_summary(self, safe_physical: int) -> tuple[int, int, int]:
        """What is written down of the key index: a start that finds less builds it again from the whole log."""
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
            self.health.set("store/key-index", self._index_damage)
            self._ends.is_behind = True

    async def stop(self) -> None:
        """Flush everything, write the checkpoint, remove the abort file; after a disk error it stays, and says so."""
        if self._closed:
            return
        self._closed = _STOPPED
        try:
            await super().stop()
            await stop_each(*[service.stop for service in self._services])
            self._sync.stop()
            await self.residency.stop()
            for worker in self._workers.values():
                await worker.close()
            await self._flush_all()
        except Exception as error:
            trace = None if isinstance(error, OSError | StoreError) else error
            _log.error("the store could not be stopped cleanly, the next start recovers it: %s", error, exc_info=trace)
        finally:
            self.durability.fail_all()
            self._release()

    async def _flush_all(self) -> None:
        self.log.commit()
        self.log.list.flush()
        self.durability.flushed.advance(self.log.list.flushed_offset)
        self.dispatch.run_all(self.log.max_offset)  # all that the next start would dispatch, whatever the role asks
        self._late.retry()
        if self._late.are_open:
            raise StoreError(self._late.reason, path=str(self._paths.root))
        self._deletion.save()
        await self._flush_queues()
        self.index.flush()
        checkpoint = self.checkpoint
        self._note_safe()
        if self.log.last_store_ms:
            checkpoint.physic_ms = checkpoint.logics_ms = self.log.last_store_ms
        checkpoint.derived_offset = self.dispatch.position
        checkpoint.write(checkpoint.encode())
        self.log.allocate.remove_unused()
        if self.dispatch.position < self.log.list.wrote_offset:
            raise StoreError("not all messages are dispatched", offset=self.dispatch.position)
        self._ends.write(list(self._ends.lines()), self._index_summary(self.index.last_physical_offset), is_exact=True)
        self._disk.remove(self._paths.abort)
        self._disk.sync_dir(self._paths.root)

    async def _flush_queues(self) -> None:
        """In slices, so that the loop lives, and no longer than `stopFlushMs`: the log, which is safe, has it all."""
        clock, seconds = self._clock, self.config.stop_flush_ms / 1000
        deadline = clock.monotonic() + seconds
        say_at = clock.monotonic() + _SAY_SECONDS
        for left in self.queues.flush_each():
            if left % _FLUSH_SLICE:
                continue
            await asyncio.sleep(0)
            now = clock.monotonic()
            if now >= deadline and left:
                raise StoreError(
                    f"{left} consume queues are not on disk after {seconds:g} s",
                    path=str(self._paths.consume_queue),
                    hint="start again, they are built from the log; raise stopFlushMs for longer stops",
                )
            if now >= say_at:
                say_at = now + _SAY_SECONDS
                _log.info("stopping: %d consume queues are still to be written", left)

    def _release(self) -> None:
        for part in (self.log.list, self.queues, self.index, self.checkpoint, self._lock):
            try:
                if part is not None:
                    part.close()
            except Exception as error:
                _log.warning("cannot close: %r", error)
        self._lock = None

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def not_writable_reason(self) -> str:
        """Why messages are refused; "" while they are taken."""
        return (
            self._closed
            or self._sync.failure
            or self.log.broken
            or self._cutting
            or self._late.reason
            or self.retention.disk_full
            or self._commit_failure
            or self.dispatch.error
        )

    @property
    def writable(self) -> bool:
        """True while messages are taken."""
        return not self.not_writable_reason

    @property
    def is_complete(self) -> bool:
        """Are all messages of the log in their queues that were there at the start? A full disk may delay that."""
        return not self._late.are_open

    def when_complete(self, done: Callable[[], object]) -> None:
        """Call `done` when the store `is_complete`, perhaps now."""
        self._late.when_done(done)

    @property
    def disk_ratio(self) -> float:
        """Used share of the fullest disk, 0 to 1; negative when unknown."""
        return self.retention.disk_percent / 100

    @property
    def min_physical_offset(self) -> int:
        """First physical offset that is still there."""
        return self.log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends (buffered bytes count)."""
        return self.log.list.wrote_offset

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is safe."""
        return self.log.list.flushed_offset

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which messages can be found in their queues."""
        return self.dispatch.position

    # -- put -----------------------------------------------------------------------------------------------------------

    def put(self, message: PutMessage) -> PutResult:
        """Append one message now. It can be lost until `when_durable` says so."""
        refused = self._refuse(message)
        if refused is not None:
            return refused
        topic, queue_id, sys_flag = message.topic, message.queue_id, message.sys_flag
        numbered = sys_flag & TRANSACTION_MASK in _NUMBERED
        store_ms = self._clock.now_ms()
        try:
            queue_offset = self.queues.assign(topic, queue_id) if numbered else 0
        except BadQueueName as error:
            return illegal(str(error))
        try:
            offset, size = self.log.append(message, queue_offset, store_ms)
        except (AppendFailed, RecordError) as error:
            if numbered:
                self.queues.give_back(topic, queue_id)
            return _failed(error)
        self.dispatch.appended(
            appended_entry(
                topic,
                queue_id,
                queue_offset,
                offset,
                size,
                store_ms,
                sys_flag,
                message.prepared_transaction_offset,
                message.properties,
                self._delays_ms,
            ),
            readable=self.durability.dispatches_at_once,
        )
        self._appended()
        return PutResult(PutStatus.OK, offset, size, queue_offset, store_ms, offset + size)

    def put_batch(self, message: PutMessage) -> PutResult:
        """Append every message of a batch body, all of them or none; `offsets` are their physical offsets."""
        refused = self._refuse(message)
        if refused is not None:
            return refused
        items = batch_items(message)
        if isinstance(items, PutResult):
            return items
        topic, queue_id = message.topic, message.queue_id
        store_ms = self._clock.now_ms()
        try:
            queue_offset = self.queues.assign(topic, queue_id, len(items))
        except BadQueueName as error:
            return illegal(str(error))
        try:
            offsets, size = self.log.append_batch(message, items, queue_offset, store_ms)
        except (AppendFailed, RecordError) as error:
            self.queues.give_back(topic, queue_id, len(items))
            return _failed(error)
        self._appended()
        end = offsets[0] + size
        return PutResult(PutStatus.OK, offsets[0], size, queue_offset, store_ms, end, count=len(items), offsets=offsets)

    def put_large(self, batch: LargeBatch) -> PutResult:
        """`put_batch` with records that were made ready in steps; its `offsets` are left to the caller."""
        message, count = batch.message, len(batch)
        refused = self._refuse(message) or (None if count else illegal("the batch is empty"))
        if refused is not None:
            return refused
        store_ms = self._clock.now_ms()
        try:
            queue_offset = self.queues.assign(message.topic, message.queue_id, count)
        except BadQueueName as error:
            return illegal(str(error))
        try:
            offset = self.log.append_large(batch, queue_offset, store_ms)
        except AppendFailed as error:
            self.queues.give_back(message.topic, message.queue_id, count)
            return _failed(error)
        self._appended()
        size = len(batch.records)
        return PutResult(PutStatus.OK, offset, size, queue_offset, store_ms, offset + size, count=count)

    def put_run(self, run: record_run.RecordRun) -> bool:
        """Append all records of a run in one write; its messages are sound, and neither delayed nor transactional.

        False: nothing was appended, and `put` of each message does what is to be done, or says what is in the way.
        """
        if self.not_writable_reason:
            return False
        try:
            run.find_queues(self.queues.find_or_make)
        except BadQueueName:
            return False
        run.number()
        if not self.log.append_run(run, self._clock.now_ms()):
            return False
        run.take_numbers()
        self.dispatch.appended_run(run, readable=self.durability.dispatches_at_once)
        self._appended()
        return True

    # -- of another store ----------------------------------------------------------------------------------------------

    def append_raw(self, data: bytes | memoryview, offset: int, *, check_crc: bool = True) -> int:
        """Append whole records as another store has written them from `offset`, the end of this log, on.

        Returns the new end. Raises AppendFailed: nothing was appended, or (when the disk refuses) what lies before the
        end of the log now.
        """
        reason = self.not_writable_reason
        if reason:
            raise AppendFailed(PutStatus.SERVICE_NOT_AVAILABLE, reason)
        try:
            return self._raw.append(data, offset, readable=self.durability.dispatches_at_once, check_crc=check_crc)
        finally:
            self._appended()

    async def cut(self, end: int) -> None:
        """Take back all that lies behind `end`, the start of a record: for good, and as if it had never been there.

        Readers see it at once; messages are taken again when this returns. Raises StoreError where the log cannot be
        cut, and OSError, StoreError if the disk refuses: then nothing is taken until the next start.
        """
        if self.not_writable_reason:
            raise StoreError(f"the log cannot be cut: {self.not_writable_reason}")
        self._cut.check(end)
        if end == self.max_physical_offset:
            return
        self._cutting = f"the log is being cut at {end}"
        try:
            await self._cut_now(end)
        except BaseException as error:
            self.log.broken = f"the log could not be cut at {end}, restart to have it recovered: {error!r}"
            raise
        finally:
            self._cutting = ""
        self.log.make_ahead()

    async def _cut_now(self, end: int) -> None:
        jobs = self._cut.begin(end)
        self._queue_flush.log_was_cut()
        for heard in self.after_cut:
            call(heard, end)
        notes: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._deletion.cut(end, notes.set_result)
        await run_on(self._workers["queues"], lambda: _run_all(jobs))
        for job in jobs:
            job.done()
        error = await notes
        if error is not None:
            raise error

    def _refuse(self, message: PutMessage) -> PutResult | None:
        reason = self.not_writable_reason
        if reason:
            is_full = reason is self.retention.disk_full or reason is self._late.reason
            status = PutStatus.DISK_FULL if is_full else PutStatus.SERVICE_NOT_AVAILABLE
            return PutResult(status, reason=reason)
        return refuse(message, self.config.body_bytes_max)

    def _appended(self) -> None:
        if self.durability.dispatches_at_once and self.dispatch.position < self.log.list.wrote_offset:
            self._dispatch_readable()
        self._wake()

    def when_durable(self, result: PutResult, *, wait: bool, done: Callable[[PutStatus], object]) -> None:
        """Call `done` with the final status: at once, or with `wait` when the message is as safe as the role asks."""
        if not result.status.is_stored:
            done(result.status)
            return

        def ended(late: Sequence[Stage]) -> None:
            done(self._late_status(result, late) if late else result.status)

        asked = self.durability.demands.acks if wait else AT_ONCE
        self.durability.when_durable(result.next_offset, asked, ended)

    def _late_status(self, result: PutResult, late: Sequence[Stage]) -> PutStatus:
        """The status of a put that is not as safe as it was asked to be; of disk and replicas, the replicas count."""
        if self._sync.failure or self._closed:
            result.reason = self.not_writable_reason
            return PutStatus.SERVICE_NOT_AVAILABLE
        if result.next_offset > self.log.list.wrote_offset:
            result.reason = f"the log was cut at {self.log.list.wrote_offset}, before this message"
            return PutStatus.SERVICE_NOT_AVAILABLE
        self._say_timeout(result, late)
        return PutStatus.FLUSH_DISK_TIMEOUT if late == [Stage.FLUSHED] else PutStatus.FLUSH_SLAVE_TIMEOUT

    def _say_timeout(self, result: PutResult, late: Sequence[Stage]) -> None:
        """Say whose message is in the log, and not as safe as asked in time."""
        record = self.log.record(result.physical_offset) if result.count else None
        if record is None:
            whose = "of an ended transaction"
        else:
            first = decode_record(record, check_crc=False, decompress=False)
            topic, tags = first.properties.get(names.REAL_TOPIC, first.topic), first.properties.get(names.TAGS, "")
            whose = "of topic {}, tags {!r}, from client {}:{}".format(topic, tags, *first.born_host)
        self._warnings.warn(
            "timeout",
            "not %s: %d messages at %d %s; on disk is the log up to %d of %d",
            ", not ".join(self._named(stage) for stage in late),
            result.count,
            result.physical_offset,
            whose,
            self.log.list.flushed_offset,
            self.log.list.wrote_offset,
        )

    def _named(self, stage: Stage) -> str:
        """A stage and its timeout, for the log."""
        timeout_ms = self.durability.demands.acks.get(stage, 0)
        if stage is Stage.FLUSHED:
            return f"on disk within syncFlushTimeout ({timeout_ms} ms)"
        return f"{stage.value} within {timeout_ms} ms"

    # -- what follows a put --------------------------------------------------------------------------------------------

    def _dispatch_readable(self) -> None:
        """Dispatch what may be read, a bounded piece now and the rest in the next turns."""
        if self.dispatch.run(self.durability.readable_end) and not self.dispatch.error:
            self._dispatch_soon.ask()

    def _retry_dispatch(self) -> None:
        if self._late.are_open:
            self._late.retry()
            if not self._late.are_open:
                _log.warning("there is room on the disk again: all that the start left undone is done")
        if self.dispatch.error or self._late.are_open:
            self._dispatch_readable()
        self._deletion.retry()

    def _note_health(self) -> None:
        """All that keeps messages from being taken: a failed sync, a full disk, a broken log, a dead dispatch."""
        self.health.set("store/writes", self.not_writable_reason)

    def _commit_pool(self, least_pages: int = 0) -> None:
        """Carry the write pool into the files. Raises OSError; puts are refused until it works again."""
        log, began, committed = self.log.list, self._slow.seconds(), self.log.list.max_offset
        try:
            self.log.commit(least_pages)
        except OSError as error:
            self._commit_failure = f"the write pool cannot be committed: {error}"
            raise
        self._slow.note("commit", self._slow.seconds() - began, log.max_offset - committed, log.max_offset)
        self._commit_failure = ""
        self._timed.wake()
        self._dispatch_readable()

    def _arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int, store_ms: int) -> None:
        try:
            self.on_arrival(topic, queue_id, max_offset, tag_code, store_ms)
        except Exception as error:
            raised(self.on_arrival, error)

    # -- background work -----------------------------------------------------------------------------------------------

    def _queue_jobs(self, least_pages: int) -> Iterator[SyncJob | None]:
        if least_pages:
            yield from self.queues.to_flush(least_pages)
            return
        has_changed = False
        index = self.index.to_flush()
        safe_physical = index[0].end_physical if index else self.index.safe_physical
        for job in chain(self.queues.to_flush(), index):
            has_changed = has_changed or job is not None
            yield job
        if (has_changed or self._ends.is_behind) and self.is_complete:
            yield from self._ends.job(self._index_summary(safe_physical))
        self._ends.is_behind = has_changed

    def _drop_below(self, min_physical: int) -> Iterator[Removable]:
        yield from self.index.delete_before(min_physical)
        yield from self._deletion.out_of_the_way(self.queues.delete_before(min_physical))

    def _note_safe(self) -> None:
        """Bring the checkpoint's numbers up to date, except that of the queues, which QueueFlush sets."""
        checkpoint = self.checkpoint
        checkpoint.confirm_offset = self.log.list.flushed_offset
        checkpoint.index_ms = self.index.safe_ms
        if self._sync.safe_store_ms:
            checkpoint.physic_ms = self._sync.safe_store_ms

    # -- get -----------------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        max_bytes: int,
        match: MatchTag | None = None,
        match_record: MatchRecord | None = None,
        *,
        wait: bool = True,
    ) -> GetResult:
        """Messages of a queue from a queue offset on; `match` sees the tag code, `match_record` the whole record.

        `wait` False: the disk is not waited for; NOT_IN_MEMORY says that `cold` must be given to `load` first.
        """
        queue = self.queues.find(topic, queue_id)
        if self._late.are_open and offset > (end := 0 if queue is None else queue.max_offset):
            # The queue's end is not known yet: a consumer that is sent back would read the last messages twice.
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, next_offset=offset, max_offset=end)
        if queue is None:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE)
        return self.fetch.fetch(queue, offset, max_messages, max_bytes, match, match_record, wait=wait)

    def _mend(self, queue: ConsumeQueue, first: int, end: int, is_odd: bool) -> bool:
        """Entries of a queue do not lead to their records: the queue is damaged, or those records are."""
        found = self._queue_mend.mend(queue, first, end, self.dispatch.position)
        what = "they are passed by, the next start looks for them" if is_odd else "they are handed out as they are"
        if is_odd and not found:
            self._ends.suspect(queue.topic, queue.queue_id)
        self._warnings.warn(
            f"odd {queue.queue_id} {queue.topic}",
            "queue %d of %s: entries from offset %d on lead to %s; %s",
            queue.queue_id,
            queue.topic,
            first,
            "no record of this queue" if is_odd else "records that say another queue offset",
            f"{found} were found in the log again" if found else what,
        )
        return found > 0

    def load(self, cold: Sequence[ColdPart], done: Callable[[Exception | None], object]) -> None:
        """Read parts of the store into memory on a worker; `done` runs on the loop, with the error if there was one."""
        self.residency.load(cold, done)

    def queue_entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> list[tuple[int, int, int]]:
        """Entries of a queue from a queue offset on, as (physical offset, size, tag code); all of one file."""
        queue = self.queues.find(topic, queue_id)
        return [] if queue is None else queue.read(offset, max_count)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First queue offset that can be read; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else queue.min_offset(self.log.min_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset behind the last message that can be read; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def offset_at(self, topic: str, queue_id: int, physical_offset: int) -> int:
        """First queue offset whose message lies at or behind a physical offset; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else queue.offset_at(physical_offset)

    def offset_by_time(self, topic: str, queue_id: int, ms: int, upper: bool = False) -> int:
        """First queue offset stored at `ms` or later, with `upper` the last stored at `ms` or earlier."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(queue, ms, self.log.store_ms_at, min_physical=self.log.min_offset, upper=upper)

    def earliest_store_ms(self, topic: str, queue_id: int) -> int:
        """Store time of the first message that can be read, -1 without one."""
        return self.store_ms_at(topic, queue_id, self.min_offset(topic, queue_id))

    def store_ms_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of the message at a queue offset, -1 when there is none."""
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else store_ms_at(queue, offset, self.log.store_ms_at)

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """True when the message at a queue offset is probably still in the page cache."""
        queue = self.queues.find(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return entry is not None and self.fetch.is_in_memory(entry[0])

    def read_record(self, physical_offset: int) -> memoryview | None:
        """The whole record that starts at `physical_offset`; None if none starts there."""
        return self.log.record(physical_offset)

    def log_views(self, offset: int) -> Iterator[tuple[int, memoryview]]:
        """(physical offset, readable bytes) of the log from `offset` on, file by file."""
        for mapped in self.log.list.files:
            start = max(offset, mapped.start)
            view = mapped.read(start - mapped.start, mapped.start + mapped.readable - start)
            if view is not None and view:
                yield start, view

    def appended_views(self, offset: int) -> Iterator[tuple[int, memoryview]]:
        """The same of all that was appended, also of what waits in write buffers and cannot be read yet."""
        for mapped in self.log.list.files:
            start = max(offset, mapped.start)
            if view := mapped.appended(start - mapped.start):
                yield start, view

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, unique: bool = False
    ) -> QueryResult:
        """Messages with a key (`unique`: with this unique key), oldest first; up to `maxMsgsNumBatch`."""
        result = QueryResult(index_last_ms=self.index.last_ms, index_last_offset=self.index.last_physical_offset)
        wanted = f"{topic}#{key}"
        count = min(max_count, self.config.query_count_max)
        for offset in sorted(self.index.find(wanted, count, begin_ms, end_ms)):
            record = self.log.record(offset)
            if record is not None and self._has_key(record, offset, wanted, unique):
                result.slices.append(record)
        return result

    def _has_key(self, record: memoryview, offset: int, wanted: str, unique: bool) -> bool:
        """Is a hit of the key index, which knows hashes only, really one, and of a topic that was not deleted?"""
        entries, _taken, _status = scan(record, offset, False, ())
        if not entries or self.deletions.is_dead(entries[0].topic, offset, entries[0].queue_id):
            return False
        entry = entries[0]
        return wanted in (entry.index_keys()[:1] if unique and entry.unique_key else entry.index_keys())

    def delete_topics(self, names: Collection[str], noted: Noted = unasked) -> None:
        """Remove all queues of these topics; their messages stay in the log until they expire, and are dead there.

        A message put from now on belongs to the topic made anew, from queue offset 0 on. `noted` is called when all
        this survives a crash, with the error if it may not. Raises StoreError.
        """
        self._deletion.delete(names, self.max_physical_offset, noted)


def _run_all(jobs: Sequence[FlushJob]) -> None:
    for job in jobs:
        job.run()


def own_demands(config: StoreConfig) -> Demands:
    """What a store asks for that stands alone: SYNC_FLUSH asks for the sync."""
    if not config.sync_flush:
        return Demands()
    acks = {Stage.FLUSHED: config.sync_flush_timeout_ms}
    return Demands(acks, reads=() if config.read_uncommitted else (Stage.FLUSHED,))


_NUMBERED = (TRANSACTION_NONE, TRANSACTION_COMMIT)


def _failed(error: AppendFailed | RecordError) -> PutResult:
    if isinstance(error, AppendFailed):
        return PutResult(error.status, reason=str(error))
    return illegal(str(error))


def _not_opened(error: OSError, root: Path) -> StoreError:
    hint = ""
    if is_no_room(error):
        hint = f"free some space on the disk of {root} and start again; nothing is lost"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "start as the user who owns these files, or give them to yours: chown -R"
    return StoreError(f"the store cannot be opened: {error}", path=str(error.filename or root), hint=hint)


def _nobody_waits(_topic: str, _queue_id: int, _max_offset: int, _tag_code: int, _store_ms: int) -> None:
    """Until the broker is there."""
