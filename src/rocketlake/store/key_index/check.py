"""Looks for damage in the key index files that a start found, slowly, beside all other work.

Owns        the rules of a sound file, the pace of the check.
Must not know   records, how a damaged file is mended.

The header's counts are compared at the start (queueEnds). A flipped bit in a slot or in a link hides keys without a
word, so all of each file is read once a start: links and slots must be those that its entries ask for.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import File, Files
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.key_index.chains import link_entries
from rocketlake.store.key_index.file import KeyIndexFile
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.key_index.layout import ENTRY_SIZE, entry_position, seconds_since, slot_position

__all__ = ["FileCheck", "IndexCheck"]

_log = get_logger(__name__)

_NO_LIMIT = PhysicalOffset(2**63 - 1)
_STEP_ENTRIES = 32_768
_STEP_SLOTS = 131_072
_FIRST_SECONDS = 10.0  # a start has other things to do
_REST_SECONDS = 0.05  # between two steps, of half a megabyte each


class FileCheck:
    """One file, as far as it was written when it was opened: `step` on a worker while it says that there is more."""

    def __init__(self, files: Files, file: KeyIndexFile) -> None:
        self.problem = ""
        """The damage that was found; "" while there is none."""
        self._files = files
        self._file: File | None = None
        self._checked = file
        self._slots = file.slots
        self._count = file.opened_count
        self._header = (file.begin_ms, file.end_ms, file.begin_physical, file.end_physical) if file.was_full else None
        self._heads = array("i", [0]) * file.slots
        self._number = 1
        self._first_physical = PhysicalOffset(-1)
        self._last = PhysicalOffset(0)
        self._seconds = 0
        self._slot = 0

    def step(self) -> bool:
        """Look at a bounded piece; the first step opens the file. Raises OSError."""
        if self._file is None:
            self._file = self._files.open(self._checked.path, read_only=True)
        if self._number < self._count:
            self._look_at_entries(self._file)
        elif self._slot < self._slots and self._count > 1:
            self._look_at_slots(self._file)
        else:
            return False
        return not self.problem

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()

    def _look_at_entries(self, file: File) -> None:
        wanted = min(_STEP_ENTRIES, self._count - self._number)
        chunk = file.pread(wanted * ENTRY_SIZE, entry_position(self._slots, self._number))
        if self._first_physical < 0:
            self._first_physical = PhysicalOffset(int.from_bytes(chunk[4:12], "big"))
        sound, self._last, self._seconds, _used, linked = link_entries(
            chunk, self._number, self._last, _NO_LIMIT, self._heads
        )
        if sound < wanted:
            self.problem = f"entry {self._number + sound} is none"
        elif linked:
            self.problem = f"entries {self._number} to {self._number + wanted - 1} are not linked as their hashes ask"
        self._number += wanted
        if self._number == self._count and not self.problem:
            self._look_at_header()

    def _look_at_header(self) -> None:
        if self._header is None or self._count <= 2:
            return
        begin_ms, end_ms, begin_physical, end_physical = self._header
        if (begin_physical, end_physical) != (self._first_physical, self._last):
            self.problem = "the header names other records than the first and the last entry"
        elif self._seconds != seconds_since(begin_ms, end_ms):
            self.problem = "the times of the header do not fit to the last entry"

    def _look_at_slots(self, file: File) -> None:
        first = self._slot
        count = min(_STEP_SLOTS, self._slots - first)
        found = array("i", file.pread(4 * count, slot_position(first)).ljust(4 * count, b"\0"))
        found.byteswap()  # slots are big-endian
        expected = self._heads[first : first + count]
        if found != expected:  # others may have got newer entries meanwhile
            for at, number in enumerate(expected):
                if found[at] != number and not self._count <= found[at] < self._checked.count:
                    self.problem = f"slot {first + at} does not lead to its newest entry"
                    break
        self._slot += count


class IndexCheck(Service):
    """Checks all files of an index once, and reports each damaged one."""

    def __init__(
        self, index: KeyIndex, files: Files, clock: Clock, worker: Worker, found: Callable[[Path, str], object]
    ) -> None:
        """`found` is called with the path of a damaged file and the damage."""
        super().__init__("index-check", clock)
        self._index = index
        self._files = files
        self._worker = worker
        self._found = found

    async def start(self) -> None:
        """Begin."""
        await super().start()
        self.spawn("look", self._look())

    async def _look(self) -> None:
        await self._clock.sleep(_FIRST_SECONDS)
        for file in list(self._index.files):
            try:
                with closing(FileCheck(self._files, file)) as check:
                    while await self._on_worker(check.step):
                        await self._clock.sleep(_REST_SECONDS)
            except FileNotFoundError:
                continue  # expired meanwhile
            except OSError as error:
                _log.warning("the key index file %s cannot be checked: %s", file.path, error)
                continue
            if check.problem:
                self._found(file.path, check.problem)

    async def _on_worker(self, step: Callable[[], bool]) -> bool:
        result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def done(more: bool | None, error: Exception | None) -> None:
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(bool(more))

        self._worker.submit(step, done)
        return await result
