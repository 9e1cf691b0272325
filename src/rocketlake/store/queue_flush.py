"""When derived files and the checkpoint become safe: rounds over the consume queues, one page once a second.

Owns        the rounds, and the numbers of the checkpoint that are about consume queues.
Must not know   entries, records, which acks wait for the log.

Invariant: the checkpoint's consume queue time and its position of queues and index move only after a thorough round
that began behind them has succeeded. (Apache moves the time at the append and relies on a margin of 3 s.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock, Millis
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.config import StoreConfig
from rocketlake.store.flush import Soon, Thorough
from rocketlake.store.late_files import FileLate, NotSynced
from rocketlake.store.slow_work import Progress

__all__ = ["CheckpointWriter", "QueueFlush", "SyncJob"]

_log = get_logger(__name__)

_CHECKPOINT_SECONDS = 1.0
_LOOK_AT = 64
"""Queues looked at in one turn of the loop: some ten microseconds, when their tails are written about a millisecond."""


class SyncJob(Protocol):
    """Some files to sync: `run` on a worker thread, then `done` or `failed` on the loop."""

    def run(self) -> None:
        """Sync. Raises OSError."""

    def done(self) -> None:
        """It succeeded."""

    def failed(self, error: Exception) -> None:
        """It failed; it is never tried again."""


class QueueFlush(Service):
    """Syncs the consume queues by interval and pages, all of them now and then."""

    def __init__(
        self,
        to_flush: Callable[[int], Iterator[SyncJob | None]],
        dispatched: Callable[[], tuple[Millis, PhysicalOffset]],
        checkpoint: Checkpoint,
        config: StoreConfig,
        clock: Clock,
        worker: Worker,
        *,
        write_tails: Callable[[], bool] = lambda: True,
    ) -> None:
        """`to_flush` looks at one queue after the other, by least pages: the sync that is due, None: none.

        `dispatched`: the store time of the last record dispatched, and the physical offset behind it.
        `write_tails` brings entries of those records into files, some in each call; True when all are. It raises
        NotSynced or FileLate if nothing can be written before a round has ended, or before a file is ready.
        """
        super().__init__("queue-flush", clock)
        self.after_round: Callable[[], object] = _nobody_waits
        """Called when a round has synced some queues, and has ended well."""
        self._to_flush = to_flush
        self._dispatched = dispatched
        self._checkpoint = checkpoint
        self._config = config
        self._worker = worker
        self._thorough = Thorough(config.queue_flush_thorough_interval_ms, clock)
        self._soon = Soon(self._look)
        self._round: Iterator[SyncJob | None] | None = None
        """The queues of this round that are still to be looked at; None between rounds."""
        self._write_tails = write_tails
        self._tails_soon = Soon(self._go_on)
        self._waits_for_sync = self._waits_for_interval = False
        """Why tails are left: one can be written only when older entries are synced; the disk has refused one."""
        self._awaited: tuple[Millis, PhysicalOffset] | None = None
        """What was `dispatched` when a thorough round was due; it begins when the tails are written."""
        self._safe: tuple[Millis, PhysicalOffset] | None = None
        """The value of `dispatched` when this round was due; None if it is not thorough, or the log was cut since."""
        self._progress = Progress(clock)
        self._looked_at = self._synced_count = 0
        """Queues of this round so far."""
        self._failed = False
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.every("rounds", self._config.queue_flush_interval_ms / 1000, self._begin)

    @property
    def failure(self) -> str:
        """Why no queue is synced any more; "" while all is well."""
        return "a consume queue cannot be synced, restart the broker" if self._failed else ""

    async def stop(self) -> None:
        """Begin no more; a sync that is under way ends as usual."""
        await super().stop()
        self._round = self._awaited = None

    def _begin(self) -> None:
        self.flush(thorough=self._thorough.is_due())

    def flush(self, *, thorough: bool) -> None:
        """Begin a round; nothing happens while one is under way or after a failed sync.

        A thorough one waits until the tails are in their files, and rounds that are not thorough go on meanwhile.
        """
        if self._failed:
            return
        if thorough and self._awaited is None:
            self._awaited = self._dispatched()
        self._waits_for_interval = False
        self._go_on()
        if self._round is None:
            self._begin_round(self._config.queue_flush_least_pages)

    def file_ready(self) -> None:
        """A file that a tail may wait for is ready, or could not be made."""
        if self._awaited is not None:
            self._tails_soon.ask()

    def _go_on(self) -> None:
        """Write some tails if a thorough round is due, and begin it when all of them are in files."""
        if self._awaited is None or self._round is not None or self._failed or self._waits_for_interval:
            return
        self._waits_for_sync = False
        try:
            is_done = self._write_tails()
        except NotSynced:
            self._waits_for_sync = True
            self._begin_round(self._config.queue_flush_least_pages)
        except FileLate:
            return  # `file_ready` follows
        except Exception as error:
            self._waits_for_interval = True
            self._give_up(error)
        else:
            if is_done:
                safe, self._awaited = self._awaited, None
                self._begin_round(0, safe)
            else:
                self._tails_soon.ask()

    def _begin_round(self, least_pages: int, safe: tuple[Millis, PhysicalOffset] | None = None) -> None:
        """`safe`: what is safe when this round has ended well."""
        self._safe = safe
        self._progress, self._looked_at, self._synced_count = Progress(self._clock), 0, 0
        self._round = self._to_flush(least_pages)
        self._look()

    def log_was_cut(self) -> None:
        """This round must not move the checkpoint: it has synced entries that were cut."""
        self._safe = None
        if self._awaited is not None:
            # Not more than when the round was due: tails that began since are perhaps in no file when it ends.
            due, now = self._awaited, self._dispatched()
            self._awaited = min(due[0], now[0]), min(due[1], now[1])

    def _look(self) -> None:
        """Look at some queues, and go on when those are synced: requests are served in between."""
        if self._round is None:
            return
        try:
            looked = list(islice(self._round, _LOOK_AT))
            jobs = [job for job in looked if job is not None]
            self._looked_at += len(looked)
            self._synced_count += len(jobs)
            if self._safe is not None and self._progress.is_due():
                self._say_progress("so far")
            if jobs:
                self._worker.submit(lambda: _run_all(jobs), self._synced)
            elif looked:
                self._soon.ask()
            else:
                self._end()
        except Exception as error:
            self._give_up(error)

    def _synced(self, outcomes: list[tuple[SyncJob, Exception | None]] | None, error: Exception | None) -> None:
        if outcomes is None:
            self._give_up(error)
            return
        for job, problem in outcomes:
            try:
                self._note(job, problem)
            except Exception as bug:
                self._note_unsafe(bug)
        self._look()

    def _note(self, job: SyncJob, error: Exception | None) -> None:
        if error is None:
            job.done()
        elif isinstance(error, OSError):
            job.failed(error)
            self._failed = True
            _log.error("a consume queue cannot be synced; the next start rebuilds it from the log: %s", error)
            self.health.set("queue-flush/sync", f"a consume queue cannot be synced, restart the broker: {error}")
        else:
            self._note_unsafe(error)

    def _note_unsafe(self, error: Exception) -> None:
        """A fault that is not of the disk: the other jobs go on, the next round tries this one again."""
        self._safe = None
        self._warnings.error("job", error, "a consume queue was not flushed, it is tried again: %r", error)

    def _give_up(self, error: Exception | None) -> None:
        """This round ends here; the next one begins in time."""
        self._round = None
        error = error or StoreError("the worker came back without outcomes")
        self._warnings.error("round", error, "the consume queues cannot be flushed, it is tried again: %r", error)

    def _say_progress(self, state: str) -> None:
        _log.info(
            "thorough flush of the consume queues, %s: %d looked at, %d synced, %.0f s",
            state,
            self._looked_at,
            self._synced_count,
            self._progress.seconds,
        )

    def _end(self) -> None:
        self._round = None
        if self._synced_count:
            call(self.after_round)
        if self._awaited is not None and (self._synced_count or not self._waits_for_sync):
            self._tails_soon.ask()
        if self._progress.was_due:
            self._say_progress("done")
        if self._safe is None or self._failed:
            return
        safe_ms, position = self._safe
        self._checkpoint.derived_offset = position
        if safe_ms:
            self._checkpoint.logics_ms = safe_ms


def _run_all(jobs: Sequence[SyncJob]) -> list[tuple[SyncJob, Exception | None]]:
    outcomes: list[tuple[SyncJob, Exception | None]] = []
    for job in jobs:
        try:
            job.run()
            outcomes.append((job, None))
        except Exception as error:
            outcomes.append((job, error))
    return outcomes


def _nobody_waits() -> None:
    """Until the store is there."""


class CheckpointWriter(Service):
    """Writes the checkpoint page once a second if its numbers changed."""

    def __init__(self, checkpoint: Checkpoint, note_safe: Callable[[], object], clock: Clock, worker: Worker) -> None:
        """`note_safe` brings the checkpoint's numbers up to date."""
        super().__init__("checkpoint", clock)
        self._checkpoint = checkpoint
        self._note_safe = note_safe
        self._worker = worker
        self._under_way = False

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.every("rounds", _CHECKPOINT_SECONDS, self.write)

    def write(self) -> None:
        """Have the worker write the page, if it is not the one on disk."""
        checkpoint = self._checkpoint
        self._note_safe()
        if self._under_way or not checkpoint.changed:
            return
        self._under_way = True
        self._worker.submit(checkpoint.job(), self._written)

    def _written(self, _result: None, error: Exception | None) -> None:
        self._under_way = False
        if error is not None:
            _log.warning("the checkpoint cannot be written: %s", error)
        self.health.set("checkpoint", "" if error is None else f"the checkpoint cannot be written: {error!r}")
