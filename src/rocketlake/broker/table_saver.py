"""Saves the broker's tables to their files, away from the event loop.

Owns        when a table is saved, who waits for it.
Must not know   what a table holds.

Invariant: one save at a time; a change made during a save is saved by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketlake.base.callbacks import call_each
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
        super().__init__("table-saver", clock)
        self._tables = tables
        self._files = files
        self._worker = worker
        self._interval_seconds = interval_ms / 1000
        self._waiting: list[Callable[[bool], None]] = []
        self._saving = False

    async def start(self) -> None:
        """Begin to save."""
        await super().start()
        self.every("tick", self._interval_seconds, self._save_changed)

    async def stop(self) -> None:
        """Save what is left, each table for itself, then end; what the disk refuses is logged."""
        await super().stop()
        await self._worker.close()
        for table in self._tables:
            try:
                table.save()
            except Exception as error:
                _log.exception("%s could not be saved, its last changes are lost: %s", table.path, error)
        waiting, self._waiting = self._waiting, []
        call_each(waiting, False)

    def when_saved(self, done: Callable[[bool], None]) -> None:
        """Save now; `done(True)` when all changes made so far are on disk, `done(False)` if that failed."""
        self._waiting.append(done)
        self.save_soon()

    def save_soon(self) -> None:
        """Begin to save what changed; while a save is under way, the next begins after it."""
        if self._saving or not self.is_running:
            return  # stop() saves the rest itself
        waiting, self._waiting = self._waiting, []
        texts, errors = self._texts()

        def write() -> None:
            for table, text in texts:
                try:
                    save_text(self._files, table.path, text)
                except Exception as error:
                    errors[table] = error

        def written(_: object, _error: Exception | None) -> None:
            self._saving = False
            for table, _ in texts:
                self._note_saved(table, errors.get(table))
            call_each(waiting, not errors)
            if self._waiting:
                self.save_soon()

        self._saving = True
        self._worker.submit(write, written)

    def _texts(self) -> tuple[list[tuple[SavedTable, str]], dict[SavedTable, Exception]]:
        """What is to be written, and the tables that cannot say it: the others are saved all the same."""
        texts: list[tuple[SavedTable, str]] = []
        errors: dict[SavedTable, Exception] = {}
        for table in self._tables:
            if not table.changed:
                continue
            try:
                texts.append((table, table.to_text()))
                table.changed = False
            except Exception as error:
                errors[table] = error
                self._note_saved(table, error)
        return texts, errors

    def _note_saved(self, table: SavedTable, error: Exception | None) -> None:
        name = table.path.name
        if error is not None:
            table.changed = True
            _log.error("%s could not be saved, changes are in memory only and will be tried again: %s", name, error)
        self.health.set(f"table-saver/{name}", "" if error is None else f"{name} cannot be saved: {error!r}")

    def _save_changed(self) -> None:
        if any(table.changed for table in self._tables):
            self.save_soon()
