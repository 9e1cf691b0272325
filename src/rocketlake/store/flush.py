"""When bytes of the log reach the disk: syncs, the timed flush, the commit of the write pool.

Owns        the sync that is under way and the next one, and when they start.
Must not know   records, messages, which acks wait for a sync (durability.py).

Invariant: a position is "flushed" only after a sync that began after its bytes were written has succeeded.
Invariant: after a failed sync nothing is synced again, and no ack that asks for a sync is given.

With SYNC_FLUSH a put asks for a sync by `Soon`: all messages of one turn of the loop share it.
Rules: docs/internals/store_layout.md, "Flush" (Apache: GroupCommit-, FlushRealTime- and CommitRealTimeService).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from rocketlake.base.clock import Clock, Millis
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.config import StoreConfig
from rocketlake.store.durability import Durability, Stage
from rocketlake.store.mapped_file_list import FlushJob, LogFiles
from rocketlake.store.slow_work import SlowDisk

__all__ = ["LogSync", "PoolCommit", "Soon", "Thorough", "TimedFlush"]

_log = get_logger(__name__)


class LogSync:
    """Syncs of one log, one at a time, on a worker; each tells `durability` how far the log is flushed.

    While one sync runs, the next is queued on the worker; it covers everything written before it starts. So the disk
    never waits for the loop, which meanwhile answers the senders of the last sync.
    """

    def __init__(
        self,
        log: LogFiles,
        worker: Worker,
        durability: Durability,
        last_store_ms: Callable[[], Millis],
        slow: SlowDisk,
    ) -> None:
        self.failure = ""
        """Why nothing is synced any more; "" while all is well."""
        self.safe_store_ms = Millis(0)
        """Every record stored at or before this time is safe (for the checkpoint)."""
        self.zero_step = 0
        """So many zeros at a time are written ahead while syncs are small; 0: none."""
        self._log = log
        self._worker = worker
        self._durability = durability
        self._last_store_ms = last_store_ms
        self._slow = slow
        self._given: deque[_Sync] = deque()
        """Syncs that the worker has not reported yet, oldest first: at most one of them has not started."""
        self._worker_failed = False
        self._ended = False
        self._last_end = log.flushed_offset

    def stop(self) -> None:
        """Begin no more syncs; those the worker has end as usual."""
        self._ended = True

    def start(self, least_pages: int = 0) -> None:
        """Sync all bytes written so far as soon as the disk is free, if they are worth it; no sync after a failure."""
        last = self._given[-1] if self._given else None
        if self.failure or self._ended or (last is not None and least_pages > 0):
            return
        job = self._log.to_flush(least_pages)
        if job is None or (last is not None and last.due[0].covers(job)):
            return
        is_waiting = last is not None and last.begun is None
        due = job, self._last_store_ms() if job.end >= self._log.wrote_offset else Millis(0)
        if last is not None and is_waiting:
            last.due = due  # the worker may have started with the former one just now: `_synced` looks
            return
        if self.zero_step:
            self._zero_ahead(job.end - self._last_end)
        self._last_end = job.end
        sync = _Sync(due)
        self._given.append(sync)
        self._worker.submit(lambda: self._run(sync), lambda _result, error: self._synced(sync, error))

    def _zero_ahead(self, size: int) -> None:
        """Before a sync of `size` bytes. Not before large ones: zeros ahead have every byte written twice."""
        last = self._log.last
        if last is not None and size < self.zero_step // 4:
            with contextlib.suppress(OSError):  # an append of real bytes will meet the error and tell it
                last.zero_ahead(self.zero_step)

    def note_rest(self) -> None:
        """Before a thorough flush: note how many bytes are not on disk."""
        self._slow.note_rest(self._log.wrote_offset - self._log.flushed_offset, self._log.flushed_offset)

    def _run(self, sync: _Sync) -> None:
        """The sync itself, on the worker."""
        if self._worker_failed:
            raise OSError("the sync before it failed")
        sync.begun = sync.due
        began = self._slow.seconds()
        try:
            sync.begun[0].run()
            sync.seconds = self._slow.seconds() - began
        except Exception:
            self._worker_failed = True  # the next sync may be queued on the worker, and must not start
            raise

    def _synced(self, sync: _Sync, error: Exception | None) -> None:
        self._given.popleft()
        if self.failure or sync.begun is None:
            return
        job, store_ms = sync.begun
        if error is not None:
            job.failed(error)
            self.failure = self._log.sync_error
            _log.error("%s; the store takes no more messages until it is restarted", self.failure)
            self._durability.fail(Stage.FLUSHED)
            return
        self._slow.note("flush", sync.seconds, job.end - self._log.flushed_offset, job.end)
        job.done()
        self.safe_store_ms = store_ms or self.safe_store_ms
        if sync.due is not sync.begun and not self._given:
            self.start()
        self._durability.advance(Stage.FLUSHED, self._log.flushed_offset)


class _Sync:
    """One sync that is queued on the worker or runs there."""

    __slots__ = ("begun", "due", "seconds")

    def __init__(self, due: tuple[FlushJob[PhysicalOffset], Millis]) -> None:
        self.due = due
        """The job, and the store time that is safe when it is done (0: not known). Set by the loop."""
        self.begun: tuple[FlushJob[PhysicalOffset], Millis] | None = None
        """The value of `due` when the worker started the sync. Set by the worker, once."""
        self.seconds = 0.0
        """How long it took. Set by the worker."""


class TimedFlush(Service):
    """ASYNC_FLUSH: a sync by interval and pages, a thorough one now and then; `wake` asks for one now (real-time)."""

    def __init__(self, sync: LogSync, config: StoreConfig, clock: Clock) -> None:
        super().__init__("timed-flush", clock)
        self._sync = sync
        self._config = config
        self._thorough = Thorough(config.flush_thorough_interval_ms, clock)
        self._soon = Soon(self._round)

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.every("rounds", self._config.flush_interval_ms / 1000, self._round)

    def wake(self) -> None:
        """Do not wait for the interval; without effect when `flushCommitLogTimed` is on."""
        if not self._config.flush_timed:
            self._soon.ask()

    def _round(self) -> None:
        is_thorough = self._thorough.is_due()
        if is_thorough:
            self._sync.note_rest()
        self._sync.start(0 if is_thorough else self._config.flush_least_pages)


class PoolCommit(Service):
    """Write pool: carries buffers into files by interval and pages; `wake` asks for a look now."""

    def __init__(self, commit: Callable[[int], object], config: StoreConfig, clock: Clock) -> None:
        super().__init__("pool-commit", clock)
        self._commit = commit
        self._config = config
        self._thorough = Thorough(config.commit_thorough_interval_ms, clock)
        self._soon = Soon(self._round)

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.every("rounds", self._config.commit_interval_ms / 1000, self._round)

    def wake(self) -> None:
        """Do not wait for the interval; without effect when `wakeCommitWhenPutMessage` is off."""
        if self._config.commit_wakes_on_put:
            self._soon.ask()

    def look_soon(self) -> None:
        """The pool is exhausted: look now, whatever the settings say."""
        self._soon.ask()

    def _round(self) -> None:
        try:
            self._commit(0 if self._thorough.is_due() else self._config.commit_least_pages)
        except OSError as error:
            _log.warning("the write pool cannot be committed, it is tried again: %s", error)


class Thorough:
    """Says once per interval that a round must sync all bytes."""

    def __init__(self, interval_ms: int, clock: Clock) -> None:
        self._seconds = interval_ms / 1000
        self._clock = clock
        self._last = clock.monotonic()

    def is_due(self) -> bool:
        """True when the interval has passed since the last True."""
        now = self._clock.monotonic()
        if now < self._last + self._seconds:
            return False
        self._last = now
        return True


class Soon:
    """Runs `call` at the end of this loop turn, once, however often it was asked for."""

    __slots__ = ("_asked", "_call")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._asked = False

    def ask(self) -> None:
        """Have it run soon."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._asked = False
        self._call()
