"""When derived files and the checkpoint become safe: rounds over the consume queues, one page once a second.

Owns        the rounds, and what the checkpoint may say about consume queues.
Must not know   entries, records, who waits for the log.

Invariant: the checkpoint's consume queue time moves only after a thorough round that began behind that time has
succeeded. (Apache moves it at the append and relies on a margin of 3 s.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.config import StoreConfig
from rocketlake.store.flush import Thorough

__all__ = ["CheckpointWriter", "QueueFlush", "SyncJob"]

_log = get_logger(__name__)

_CHECKPOINT_SECONDS = 1.0


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
        to_flush: Callable[[int], Sequence[SyncJob]],
        dispatched_ms: Callable[[], int],
        checkpoint: Checkpoint,
        config: StoreConfig,
        clock: Clock,
        worker: Worker,
    ) -> None:
        super().__init__("queue-flush")
        self._to_flush = to_flush
        self._dispatched_ms = dispatched_ms
        self._checkpoint = checkpoint
        self._config = config
        self._clock = clock
        self._worker = worker
        self._thorough = Thorough(config.queue_flush_thorough_interval_ms, clock)
        self._under_way = False
        self._failed = False

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.spawn("rounds", self._run())

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._config.queue_flush_interval_ms / 1000)
            self.flush(thorough=self._thorough.is_due())

    def flush(self, *, thorough: bool) -> None:
        """Begin a round; nothing happens while one is under way or after a failed sync."""
        if self._under_way or self._failed:
            return
        dispatched_ms = self._dispatched_ms() if thorough else 0
        try:
            jobs = self._to_flush(0 if thorough else self._config.queue_flush_least_pages)
        except OSError as error:
            _log.warning("the consume queues cannot be flushed, it is tried again: %s", error)
            return
        self._under_way = True
        self._worker.submit(lambda: _run_all(jobs), lambda outcomes, _error: self._synced(outcomes, dispatched_ms))

    def _synced(self, outcomes: list[tuple[SyncJob, OSError | None]], dispatched_ms: int) -> None:
        self._under_way = False
        for job, error in outcomes:
            if error is None:
                job.done()
            else:
                job.failed(error)
                self._failed = True
                _log.error("a consume queue cannot be synced; the next start rebuilds it from the log: %s", error)
        if dispatched_ms and not self._failed:
            self._checkpoint.logics_ms = dispatched_ms


def _run_all(jobs: Sequence[SyncJob]) -> list[tuple[SyncJob, OSError | None]]:
    outcomes: list[tuple[SyncJob, OSError | None]] = []
    for job in jobs:
        try:
            job.run()
            outcomes.append((job, None))
        except OSError as error:
            outcomes.append((job, error))
    return outcomes


class CheckpointWriter(Service):
    """Writes the checkpoint page once a second if its numbers changed."""

    def __init__(self, checkpoint: Checkpoint, note_safe: Callable[[], object], clock: Clock, worker: Worker) -> None:
        """`note_safe` brings the checkpoint's numbers up to date."""
        super().__init__("checkpoint")
        self._checkpoint = checkpoint
        self._note_safe = note_safe
        self._clock = clock
        self._worker = worker
        self._under_way = False

    async def start(self) -> None:
        """Begin the rounds."""
        await super().start()
        self.spawn("rounds", self._run())

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_CHECKPOINT_SECONDS)
            self.write()

    def write(self) -> None:
        """Have the worker write the page, if it is not the one on disk."""
        checkpoint = self._checkpoint
        self._note_safe()
        if self._under_way or not checkpoint.changed:
            return
        page = checkpoint.encode()
        self._under_way = True
        self._worker.submit(lambda: checkpoint.write(page), self._written)

    def _written(self, _result: None, error: Exception | None) -> None:
        self._under_way = False
        if error is not None:
            _log.warning("the checkpoint cannot be written: %s", error)
