"""Saves the broker's tables to their files, away from the event loop.

Owns        when a table is saved, who waits for it.
Must not know   what a table holds.

Invariant: one save of a table at a time; a change made during a save is saved by the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.files import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.saved_json import save_text
from rocketlake.base.service import Service

__all__ = ["SavedTable", "TableSaver"]

_log = get_logger(__name__)


class SavedTable(Protocol):
    """A table that can say what its file should hold."""

    path: Path
    changed: bool

    def to_text(self) -> str:
        """The whole text of the file."""
        ...


class TableSaver(Service):
    """Saves changed tables every few seconds, at once when somebody waits, and at stop."""

    def __init__(self, tables: Sequence[SavedTable], files: Files, clock: Clock, interval_ms: int = 5000) -> None:
        """`interval_ms`: flushConsumerOffsetInterval."""
        super().__init__("table-saver")
        self._tables = tables
        self._files = files
        self._clock = clock
        self._interval_seconds = interval_ms / 1000
        self._wake = asyncio.Event()
        self._waiting: list[Callable[[bool], None]] = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="table-saver")

    async def start(self) -> None:
        """Begin to save."""
        await super().start()
        self.spawn("tick", self._tick())
        self.spawn("save", self._run())

    async def stop(self) -> None:
        """Save what is left, then end."""
        await super().stop()
        await self._save_round()
        self._worker.shutdown()

    def when_saved(self, done: Callable[[bool], None]) -> None:
        """Save now; `done(True)` when all changes made so far are on disk, `done(False)` if that failed."""
        self._waiting.append(done)
        self._wake.set()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(self._interval_seconds)
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._save_round()

    async def _save_round(self) -> None:
        waiting, self._waiting = self._waiting, []
        saved = [await self._save(table) for table in self._tables if table.changed]
        for done in waiting:
            done(all(saved))

    async def _save(self, table: SavedTable) -> bool:
        table.changed = False
        text = table.to_text()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._worker, save_text, self._files, table.path, text)
        except asyncio.CancelledError:
            table.changed = True  # the stop saves once more, and sees how that ends
            raise
        except Exception:
            table.changed = True
            _log.exception("%s could not be saved; it stays in memory and is tried again", table.path)
            return False
        return True
