"""The history of epochs that a store keeps: in memory and in its file.

Owns        that a change is on disk before anything relies on it; the order of changes.
Must not know   the text of the file, who asks for a change and why.

Invariant: `history` is what the file holds. An epoch is on disk before the first of its bytes is appended: bytes under
the wrong epoch could be taken for bytes of another master. So an epoch is begun first, and taken back last, after its
bytes are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import Worker, run_on
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs import epoch_file
from rocketlake.replication.epochs.history import EpochHistory

__all__ = ["FILE_NAME", "KeptEpochs"]

FILE_NAME = "epochFileCheckpoint"
"""Apache's name, below the root of the store, unless `storePathEpochFile` names another file."""


class KeptEpochs:
    """The epochs of one store. Call `load` first; it blocks. All changes raise OSError if the disk refuses."""

    def __init__(self, path: Path, files: Files, worker: Worker) -> None:
        """`worker` writes the file."""
        self.history = EpochHistory()
        self._path = path
        self._files = files
        self._worker = worker
        self._turn = asyncio.Lock()

    def load(self) -> None:
        """Read the file. Raises StoreError if it is damaged, OSError."""
        self.history = epoch_file.load(self._files, self._path)

    async def follow(self, number: int, start: PhysicalOffset) -> None:
        """The master's next bytes belong to this epoch; nothing to do if it is known. Raises ProtocolError."""

        def followed(history: EpochHistory) -> EpochHistory:
            known = history.last
            return history if known is not None and known.number == number else history.begun(number, start)

        await self._change(followed)

    async def lead(self, number: int, start: PhysicalOffset) -> None:
        """This broker writes the epoch `number` from `start`, the end of its log, on.

        Entries of that epoch and of later ones go: nothing of them was written here, or the log has lost it.
        """
        await self._change(lambda history: history.before_epoch(number).begun(number, start))

    async def cut(self, log_end: PhysicalOffset) -> None:
        """The log was cut: epochs without a byte before `log_end` go."""
        await self._change(lambda history: history.cut(log_end))

    async def drop_before(self, log_start: PhysicalOffset) -> None:
        """The log begins there: epochs that end before it go."""
        await self._change(lambda history: history.from_offset(log_start))

    async def _change(self, change: Callable[[EpochHistory], EpochHistory]) -> None:
        async with self._turn:
            changed = change(self.history)
            if changed != self.history:
                await run_on(self._worker, lambda: epoch_file.save(self._files, self._path, changed))
                self.history = changed
