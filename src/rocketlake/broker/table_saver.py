"""Saves the broker's tables to their files, away from the event loop.

Owns        when a table is saved, who waits for it.
Must not know   what a table holds.

Invariant: one save at a time; a change made during a save is saved by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.files import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.saved_json import save_text
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.broker.saved_table import SavedTable

__all__ = ["NOT_SAVED", "TableSaver"]

NOT_SAVED = "the change is in force, but could not be saved; see the broker's log"
"""What a requester is told whose change reached memory only."""

_log = get_logger("broker.table_saver")


class TableSaver(Service):
    """Saves changed tables every few seconds, at once when somebody waits, and at stop."""

    def __init__(
        self, tables: Sequence[SavedTable], files: Files, clock: Clock, worker: Worker, interval_ms: int = 5000
    ) -> None:
        """`interval_ms`: flushConsumerOffsetInterval. The worker is the saver's own and is closed at stop."""
        super().__init__("table-saver")
        self._tables = tables
        self._files = files
        self._clock = clock
        self._worker = worker
        self._interval_seconds = interval_ms / 1000
        self._waiting: list[Callable[[bool], None]] = []
        self._saving = False

    async def start(self) -> None:
        """Begin to save."""
        await super().start()
        self.spawn("tick", self._tick())

    async def stop(self) -> None:
        """Save what is left, each table for itself, then end; what the disk refuses is logged."""
        await super().stop()
        await self._worker.close()
        for table in self._tables:
            try:
                table.save()
            except OSError as error:
                _log.error("%s could not be saved, its last changes are lost: %s", table.path, error)

    def when_saved(self, done: Callable[[bool], None]) -> None:
        """Save now; `done(True)` when all changes made so far are on disk, `done(False)` if that failed."""
        self._waiting.append(done)
        self.save_soon()

    def save_soon(self) -> None:
        """Begin to save what changed; while a save is under way, the next begins after it."""
        if self._saving or not self.is_running:
            return  # stop() saves the rest itself
        waiting, self._waiting = self._waiting, []
        texts = [(table, table.to_text()) for table in self._tables if table.changed]
        for table, _ in texts:
            table.changed = False

        def write() -> None:
            for table, text in texts:
                save_text(self._files, table.path, text)

        def written(_: object, error: Exception | None) -> None:
            self._saving = False
            if error is not None:
                self._keep_changed([table for table, _ in texts], error)
            for done in waiting:
                done(error is None)
            if self._waiting:
                self.save_soon()

        self._saving = True
        self._worker.submit(write, written)

    def _keep_changed(self, tables: Sequence[SavedTable], error: Exception) -> None:
        for table in tables:
            table.changed = True
        names = ", ".join(table.path.name for table in tables)
        _log.error("%s could not be saved, changes are in memory only and will be tried again: %s", names, error)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(self._interval_seconds)
            if any(table.changed for table in self._tables):
                self.save_soon()
