"""The front of the store: put messages, get them back by queue, by position, by key, by time.

Owns        when its parts start and stop, whether messages are taken and why not, puts.
Must not know   the network, topic settings, consumer groups, subscriptions.

One thread (the event loop's) owns all state; `Files` calls that may block run on named workers and come back to it.

Reading on: parts.py, opening.py, commit_log.py (append), durability.py (when it is safe), dispatch.py
(how readers find it), reads.py, upkeep.py.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rocketlake.base.callbacks import raised
from rocketlake.base.clock import Clock, Millis
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files, is_no_room
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service, stop_each
from rocketlake.base.worker import ThreadWorker, Worker, run_on
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rocketlake.store.acks import Acks
from rocketlake.store.commit_log import AppendFailed
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.table import BadQueueName
from rocketlake.store.cut import Cut, CutRefused
from rocketlake.store.dispatch import perhaps
from rocketlake.store.dispatch_scan import appended_entry
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.opening import Opening
from rocketlake.store.parts import WORKERS, StoreParts
from rocketlake.store.put_checks import batch_items, illegal, refuse
from rocketlake.store.raw_append import RawAppend
from rocketlake.store.reads import StoreReads
from rocketlake.store.results import PutMessage, PutResult, PutStatus
from rocketlake.store.topic_deletion import Noted, unasked
from rocketlake.store.unconfirmed import Unconfirmed
from rocketlake.store.upkeep import Upkeep

if TYPE_CHECKING:
    from rocketlake.codec import record_run

__all__ = ["MessageStore"]

_log = get_logger(__name__)

_NOT_STARTED = "the store is not started"
_STOPPED = "the store is stopped"
_RETRY_SECONDS = 1.0
_HEALTH_SECONDS = 1.0
_NUMBERED = (TRANSACTION_NONE, TRANSACTION_COMMIT)
_UNNUMBERED = QueueOffset(0)


class MessageStore(StoreReads, Service):
    """One store folder. Call `start` first; after `stop` make a new object."""

    def __init__(
        self,
        root: Path,
        config: StoreConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        workers: Callable[[str], Worker] = ThreadWorker,
    ) -> None:
        Service.__init__(self, "store", clock)
        self._workers = {name: workers(f"store-{name}") for name in WORKERS}
        parts = StoreParts(root, config, files or PosixFiles(), self._clock, self._workers)
        StoreReads.__init__(self, parts)
        self.on_arrival: Callable[[str, int, QueueOffset, int, Millis], None] = _nobody_waits
        """(topic, queue id, new max offset, tag code, store ms): called on the loop when a message can be read."""
        self.is_awaited: Callable[[str, int], bool] = perhaps
        """(topic, queue id): true if a request waits at this queue. A run asks once, to skip `on_arrival`."""
        self.checkpoint = parts.checkpoint
        self.flush_seconds = parts.slow.durations
        self.durability = parts.durability
        self.upkeep = Upkeep(parts)
        self.retention = self.upkeep.retention
        self._wake, self._dispatch_readable = self.upkeep.wake, self.upkeep.dispatch_readable
        self._root = root
        self._delays_ms = parts.delays_ms
        self._deletion = parts.deletion
        self._sync = parts.sync
        self._late_files = parts.late_files
        self._late_queue_files, self._late_index_files = parts.late_files
        self._closed = _NOT_STARTED
        self.copies = ""
        """Why no message is put while records are appended as another store has written them; "" while none are.

        A record of our own between them would count as one of the master's, and the logs differ unnoticed.
        """
        self._cutting = ""
        """Why nothing is appended while the log is cut."""
        self.upkeep.on_index_damage = lambda what: self.health.set("store/key-index", what)
        self._opening = Opening(parts, self.upkeep)
        self._raw = RawAppend(parts.log, parts.queues, parts.dispatch, parts.delays_ms)
        self._acks = Acks(parts, lambda: self.not_writable_reason if self._sync.failure or self._closed else "")
        self.when_durable = self._acks.when_durable
        self.after_cut: list[Callable[[PhysicalOffset], object]] = [
            lambda _end: self.upkeep.queue_flush.log_was_cut(),
            lambda _end: self._queue_mend.log_was_cut(),
        ]
        """Called with the new end of the log, in the turn in which it is cut."""
        self._cut = Cut(parts, self.after_cut)
        self._unconfirmed = Unconfirmed(parts)
        self.adopt(*self.upkeep.services, self.residency)

    # -- start and stop ------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes from the folder, before `start`; `stop` ends it. Raises StoreError."""
        try:
            self._opening.lock()
        except OSError as error:
            raise _not_opened(error, self._root) from error

    async def start(self) -> None:
        """Lock, load, recover, begin the background work. Raises StoreError: the cause, the path, the cure."""
        try:
            self._opening.open()
            self._closed = ""
        except OSError as error:
            raise _not_opened(error, self._root) from error
        finally:
            if self._closed:
                self._opening.release()
        self.dispatch.on_arrival = self._arrived
        self.dispatch.is_awaited = self.is_awaited
        await super().start()
        for late in self._late_files:
            late.serve()
        for service in self.upkeep.services:
            await service.start()
        self.every("dispatch-retry", _RETRY_SECONDS, self.upkeep.retry_dispatch)
        self.upkeep.begin_pool()
        self._note_health()
        self.every("health", _HEALTH_SECONDS, self._note_health)
        self._deletion.remove_left_over()
        self.log.make_ahead()

    async def stop(self) -> None:
        """Flush everything, write the checkpoint, remove the abort file; after a disk error it stays, and says so."""
        if self._closed:
            self._opening.unlock()
            return
        self._closed = _STOPPED
        try:
            await super().stop()
            await stop_each(*[service.stop for service in self.upkeep.services])
            self._sync.stop()
            await self.residency.stop()
            for late in self._late_files:
                late.ask_no_more()
            for name, worker in self._workers.items():
                if name != "watch":
                    await worker.close()
            for late in self._late_files:
                late.end()
            await self._opening.flush_all()
            await self._workers["watch"].close()
        except Exception as error:
            trace = None if isinstance(error, OSError | StoreError) else error
            _log.error("the store could not be stopped cleanly, the next start recovers it: %s", error, exc_info=trace)
        finally:
            self.durability.fail_all()
            self._opening.release()

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
            or self.upkeep.commit_failure
            or self.dispatch.error
            or self._late_queue_files.error
            or self._late_index_files.error
        )

    @property
    def writable(self) -> bool:
        """True while messages are taken."""
        return not self.not_writable_reason

    @property
    def is_complete(self) -> bool:
        """True when all messages that the start found in the log are in their queues. A full disk may delay that."""
        return not self._late.are_open

    def when_complete(self, done: Callable[[], object]) -> None:
        """Call `done` when the store `is_complete`, perhaps now."""
        self._late.when_done(done)

    def _note_health(self) -> None:
        """All that keeps messages from being taken: a failed sync, a full disk, a broken log, a dead dispatch."""
        self.health.set("store/writes", self.not_writable_reason or self.log.disk_error)
        damaged_from, reason = self.damaged_from, ""
        if damaged_from is not None:
            reason = (
                f"the disk lost records of the log from {damaged_from} on. Cure: wait until another replica is the"
                " master, they are copied anew from it; a replica that is alone has to do without them"
            )
        self.health.set("store/log", reason)

    @property
    def disk_ratio(self) -> float:
        """Used share of the fullest disk, 0 to 1; negative when unknown."""
        return self.retention.disk_percent / 100

    @property
    def min_physical_offset(self) -> PhysicalOffset:
        """First physical offset that is still there."""
        return self.log.min_offset

    @property
    def max_physical_offset(self) -> PhysicalOffset:
        """Where the log ends (buffered bytes count)."""
        return self.log.list.wrote_offset

    @property
    def flushed_offset(self) -> PhysicalOffset:
        """Physical offset up to which the log is safe."""
        return self.log.list.flushed_offset

    @property
    def kept_end(self) -> PhysicalOffset:
        """Physical offset up to which the log outlives a power cut here, and any change of the master."""
        return PhysicalOffset(min(self.flushed_offset, self.durability.readable_end))

    def sync_soon(self) -> None:
        """Sync all that is written as soon as the disk is free, whatever the interval says."""
        self._sync.start()

    @property
    def dispatched_offset(self) -> PhysicalOffset:
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
            queue_offset = self.queues.assign(topic, queue_id) if numbered else _UNNUMBERED
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
        """Append all records of a run in one write; its messages are sound, and none is delayed.

        False: nothing was appended, and `put` of each message stores it, or gives the reason.
        """
        if self.not_writable_reason or self.copies:
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

    def delete_topics(self, names: Collection[str], noted: Noted = unasked) -> None:
        """Remove all queues of these topics; their messages stay in the log until they expire, and are dead there.

        A message put from now on belongs to the topic made anew, from queue offset 0 on. `noted` is called when all
        this survives a crash, with the error if it may not. Raises StoreError.
        """
        self._deletion.delete(names, self.max_physical_offset, noted)

    def delete_topic_below(self, name: str, end: PhysicalOffset) -> bool:
        """On a replica: its master deleted the topic when its log ended at `end`. False: this log ends before that.

        Queues that hold records behind `end` have begun anew by themselves, and stay.
        """
        if end > self.max_physical_offset:
            return False
        queues = [self.queues.find(name, queue_id) for queue_id in self.queues.queue_ids(name)]
        if queues and all(queue is not None and queue.max_physical_offset <= end for queue in queues):
            self._deletion.delete([name], end, unasked)
        return True

    def _refuse(self, message: PutMessage) -> PutResult | None:
        reason = self.not_writable_reason or self.copies
        if reason:
            is_full = reason is self.retention.disk_full or reason is self._late.reason
            status = PutStatus.DISK_FULL if is_full else PutStatus.SERVICE_NOT_AVAILABLE
            return PutResult(status, reason=reason)
        return refuse(message, self.config.body_bytes_max)

    def _appended(self) -> None:
        if self.durability.dispatches_at_once and self.dispatch.position < self.log.list.wrote_offset:
            self._dispatch_readable()
        self._wake()

    def _arrived(self, topic: str, queue_id: int, max_offset: QueueOffset, tag_code: int, store_ms: Millis) -> None:
        try:
            self.on_arrival(topic, queue_id, max_offset, tag_code, store_ms)
        except Exception as error:
            raised(self.on_arrival, error)

    # -- replicas ------------------------------------------------------------------------------------------------------

    def on_append(self, call: Callable[[], object] | None) -> None:
        """Call `call` when bytes of the log have become readable; None: no longer. Until then it costs nothing."""
        self._wake = self.upkeep.wake_with(call)

    def append_raw(
        self, data: bytes | memoryview, offset: PhysicalOffset, *, check_crc: bool = True, is_whole: bool = True
    ) -> PhysicalOffset:
        """Append records as another store has written them from `offset`, the end of this log, on.

        Returns the new end; `is_whole` False: a part of a record at the end of `data` is left out. Raises AppendFailed:
        nothing was appended, or (when the disk refuses) only the records before the new end of the log. Raises OSError.
        """
        reason = self.not_writable_reason
        if reason:
            raise AppendFailed(PutStatus.SERVICE_NOT_AVAILABLE, reason)
        try:
            return self._raw.append(
                data,
                offset,
                readable=self.durability.dispatches_at_once,
                check_crc=check_crc,
                is_whole=is_whole,
            )
        finally:
            if self.log.pool is not None:
                self.upkeep.commit_pool()  # a replica says that it has them: the end of its process must not take them
            self._appended()

    async def sound_end(self) -> PhysicalOffset:
        """Where the last sound record ends, of those that are not dispatched yet. Checks the body of each of them."""
        self.log.commit()
        return PhysicalOffset(await run_on(self._workers["reads"], self._unconfirmed.tail_check()))

    def number_unread(self) -> None:
        """This store appends messages of its own from now on: queue offsets of records that nobody can read are taken.

        Records that were appended raw are numbered as they are dispatched; call this when dispatch has come as far as
        it may. Raises NotInMemory.
        """
        self._unconfirmed.number()

    @property
    def damaged_from(self) -> PhysicalOffset | None:
        """The log of this replica lacks, from there on, records that it once had; None: as far as is known it is sound.

        It is until the log was cut there or before, or `end_is_sound`.
        """
        start = self.checkpoint.damaged_from
        return start if start >= self.min_physical_offset else None

    async def note_damage(self, start: PhysicalOffset) -> None:
        """The log of this running replica is damaged there; see `damaged_from`. Raises OSError."""
        self.checkpoint.note_damage(start)
        await run_on(self._workers["queues"], self.checkpoint.job())

    async def end_is_sound(self) -> None:
        """Stop reporting damage: the missing records lay behind the present end of the log.

        A master sends them again, or nobody has them. Raises OSError.
        """
        self.checkpoint.damaged_from = PhysicalOffset(-1)
        await run_on(self._workers["queues"], self.checkpoint.job())

    async def cut(self, end: PhysicalOffset) -> None:
        """Take back all records from `end` on, for good; one of them starts there, or the log is `damaged_from` there.

        Readers see it at once; messages are taken again when this returns. Raises StoreError where the log cannot be
        cut, and OSError, StoreError if the disk refuses: then the store takes no messages until the next start.
        """
        if self.not_writable_reason:
            raise StoreError(f"the log cannot be cut: {self.not_writable_reason}")
        self._cut.check(end)
        if end == self.max_physical_offset:
            return
        self._cutting = f"the log is being cut at {end}"
        try:
            await self._cut.run(end)
        except CutRefused:
            raise
        except BaseException as error:
            self.log.broken = f"the log could not be cut at {end}, restart to have it recovered: {error!r}"
            raise
        finally:
            self._cutting = ""
        self.log.make_ahead()


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


def _nobody_waits(_topic: str, _queue_id: int, _max_offset: QueueOffset, _tag_code: int, _store_ms: Millis) -> None:
    """Until the broker is there."""
