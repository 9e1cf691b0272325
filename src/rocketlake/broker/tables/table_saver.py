"""Saves the broker's tables to their files, away from the event loop.

Owns        when a table is saved, the calls that wait for a save.
Must not know   the contents of a table.

Invariant: one save at a time; a change made during a save is saved by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.disk.saved_json import save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.broker.tables.saved_table import SavedTable

__all__ = ["NOT_SAVED", "TableSaver"]

NOT_SAVED = "the change is in force, but could not be saved; see the broker's log"
"""The answer to a request whose change is in memory only."""

_log = get_logger("broker.table_saver")


_TURN_SECONDS = 0.002
"""How long the loop makes texts before it serves its sockets again."""


class _Round:
    """One save: the texts of the tables that changed, made in turns, then written by the worker."""

    __slots__ = ("errors", "steps", "texts", "waiting")

    def __init__(self, waiting: list[Callable[[bool], None]]) -> None:
        self.waiting = waiting
        self.texts: list[tuple[SavedTable, list[str]]] = []
        self.errors: dict[SavedTable, Exception] = {}
        self.steps: Iterator[None] = iter(())


class TableSaver(Service):
    """Saves changed tables every few seconds, at once for a call that waits, and at stop."""

    def __init__(self, files: Files, clock: Clock, worker: Worker, interval_ms: int = 5000) -> None:
        """`interval_ms`: flushConsumerOffsetInterval. The worker serves this saver only, which closes it at stop."""
        super().__init__("table-saver", clock)
        self.tables: list[SavedTable] = []
        self._files = files
        self._worker = worker
        self._interval_seconds = interval_ms / 1000
        self._waiting: list[Callable[[bool], None]] = []
        self._saving = False
        self._collecting: _Round | None = None
        """The save whose texts are in the making."""

    def add(self, *tables: SavedTable) -> None:
        """Save these tables too, from now on."""
        self.tables += tables

    async def start(self) -> None:
        """Start to save."""
        await super().start()
        self.every("tick", self._interval_seconds, self._save_changed)

    async def stop(self) -> None:
        """Save each changed table for itself, then end. A table that the disk refuses is logged."""
        await super().stop()
        await self._worker.close()
        self._give_up_collecting()
        for table in self.tables:
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
        """Start to save the changed tables; while a save is under way, the next one starts after it."""
        if self._saving or not self.is_running:
            return  # stop() saves the changed tables itself
        self._saving = True
        waiting, self._waiting = self._waiting, []
        self._collecting = save = _Round(waiting)
        save.steps = self._make_texts(save)
        self._collect(save)

    def _collect(self, save: _Round) -> None:
        """Make texts for one turn; when all are there, they go to the worker."""
        if self._collecting is not save:
            return  # the saver was stopped meanwhile
        end = self._clock.monotonic() + _TURN_SECONDS
        for _step in save.steps:
            if self._clock.monotonic() > end:
                asyncio.get_running_loop().call_soon(self._collect, save)
                return
        self._collecting = None
        self._write(save)

    def _make_texts(self, save: _Round) -> Iterator[None]:
        """The texts of all changed tables, part by part. A table that raises keeps no other from being saved."""
        for table in self.tables:
            if not table.changed:
                continue
            table.changed = False  # a change made from here on is saved by the next round
            parts: list[str] = []
            save.texts.append((table, parts))
            try:
                for part in table.text_parts():
                    parts.append(part)
                    yield
            except Exception as error:
                save.texts.pop()
                save.errors[table] = error
                self._note_saved(table, error)

    def _write(self, save: _Round) -> None:
        errors = save.errors

        def write() -> None:
            for table, parts in save.texts:
                try:
                    save_text(self._files, table.path, "".join(parts))
                except Exception as error:
                    errors[table] = error

        def written(_: object, _error: Exception | None) -> None:
            self._saving = False
            for table, _ in save.texts:
                self._note_saved(table, errors.get(table))
            call_each(save.waiting, not errors)
            if self._waiting:
                self.save_soon()

        self._worker.submit(write, written)

    def _give_up_collecting(self) -> None:
        """Leave the tables of this round to the stop, which saves them."""
        save, self._collecting = self._collecting, None
        if save is not None:
            for table, _parts in save.texts:
                table.changed = True
            self._waiting[:0] = save.waiting

    def _note_saved(self, table: SavedTable, error: Exception | None) -> None:
        name = table.path.name
        if error is not None:
            table.changed = True
            _log.error("%s could not be saved, changes are in memory only and will be tried again: %s", name, error)
        self.health.set(f"table-saver/{name}", "" if error is None else f"{name} cannot be saved: {error!r}")

    def _save_changed(self) -> None:
        if any(table.changed for table in self.tables):
            self.save_soon()
