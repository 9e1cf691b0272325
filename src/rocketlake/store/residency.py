"""Old parts of the store that must be read from disk: never on the loop, but on a worker.

Owns        which blocks of the log can be read without waiting, and bringing others into memory.
Must not know   records, readers, how a request waits.

A block that was found in memory counts as sure for a second; then the kernel is asked again. If the kernel evicts the
block within that second, reading it blocks the loop; we accept that.

Why: docs/decisions/0008-cold-reads-on-a-worker.md.
"""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.service import Service
from rocketlake.base.worker import Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.late_files import LateFiles
from rocketlake.store.mapped_file import LogFile
from rocketlake.store.results import ColdPart

__all__ = ["BATCH_BYTES", "BLOCK_BITS", "BLOCK_BYTES", "Residency"]

BLOCK_BITS = 18
BLOCK_BYTES = 1 << BLOCK_BITS

BATCH_BYTES = 4 * BLOCK_BYTES
"""About so much is read before the first reader hears of it."""

_NOWHERE = PhysicalOffset(-1)
_READ_BYTES = BATCH_BYTES
_SURE_SECONDS = 1.0

Done = Callable[[Exception | None], object]


@dataclass(slots=True)
class _Load:
    """Parts that one reader waits for."""

    left: int
    done: Done
    error: Exception | None = None


class Residency(Service):
    """Which blocks of the log's files are in the page cache."""

    def __init__(self, files: Files, clock: Clock, worker: Worker, late: LateFiles | None = None) -> None:
        """`late`: files of queues that must be open, too, before their bytes can be looked at."""
        super().__init__("residency", clock)
        self._late = late or LateFiles()
        self._files = files
        self._worker = worker
        self._sure: dict[PhysicalOffset, bytearray] = {}
        self._sure_until = 0.0
        self._loading: dict[ColdPart, list[_Load]] = {}
        """The readers that wait for each part that is queued or being read."""
        self._asked: deque[ColdPart] = deque()
        self._starts: dict[Path, PhysicalOffset] = {}
        """Files of the log that parts were asked of."""
        self._reading = False
        self._closed = False
        self.rest: Callable[[], float] = lambda: 0.0
        """Seconds to let the disk rest before the next read: reading is never urgent, appending is."""

    def blocks(self, mapped: LogFile) -> bytearray:
        """The blocks of a file: 1 for each that can be read in this turn of the loop."""
        now = self._clock.monotonic()
        if now >= self._sure_until:
            self._sure.clear()
            self._sure_until = now + _SURE_SECONDS
        sure = self._sure.get(mapped.start)
        if sure is None:
            sure = self._sure[mapped.start] = bytearray(-(-mapped.size // BLOCK_BYTES))
        return sure

    def sure_blocks(self, mapped: LogFile, position: int, size: int) -> bytearray | None:
        """`blocks`, if these bytes can be read now; None: they must be read from disk first."""
        sure = self.blocks(mapped)
        first, end = position >> BLOCK_BITS, (position + size - 1 >> BLOCK_BITS) + 1
        if 0 in sure[first:end]:
            part = self.cold_part(mapped, position, size)
            _path, start, length = part
            if part in self._loading or not mapped.file.is_resident(length, start):
                return None
            sure[first:end] = b"\1" * (end - first)
        return sure

    def cold_part(self, mapped: LogFile, position: int, size: int) -> ColdPart:
        """The blocks that hold these bytes, to be read from disk."""
        start = position >> BLOCK_BITS << BLOCK_BITS
        end = (position + size - 1 >> BLOCK_BITS) + 1 << BLOCK_BITS
        self._starts[mapped.path] = mapped.start
        return mapped.path, start, min(end, mapped.readable) - start

    def forget(self) -> None:
        """The log was cut: ask the kernel again for every block."""
        self._sure.clear()

    def load(self, parts: Sequence[ColdPart], done: Done) -> None:
        """Read these parts on the worker, so that they are in memory; `done` runs on the loop.

        Many queues lie in one block, and all their readers come at once: each part is read once for all of them.
        """
        load = _Load(len(parts), lambda error: self._late.when_ready([part[0] for part in parts], lambda: done(error)))
        for part in parts:
            waiting = self._loading.get(part)
            if waiting is None:
                waiting = self._loading[part] = []
                self._asked.append(part)
            waiting.append(load)
        if self._asked and not self._reading and not self._closed:
            self._read_next()

    @property
    def waiting(self) -> int:
        """Parts that are asked for or being read."""
        return len(self._loading)

    async def stop(self) -> None:
        """Read no more; readers that still wait, or ask later, are not called."""
        self._closed = True
        self._asked.clear()
        await super().stop()

    def _read_next(self) -> None:
        """Give the worker all parts that are queued by now, in one call.

        Each time the worker comes back from the disk it wants the interpreter, and the loop waits: one trip for many
        parts, one read for neighbours.
        """
        batch: list[ColdPart] = []
        size = 0
        while self._asked and size < BATCH_BYTES:
            part = self._asked.popleft()
            batch.append(part)
            size += part[2]
        self._reading = True
        self._worker.submit(lambda: self._read(batch), lambda errors, error: self._loaded(batch, errors, error))

    def _loaded(self, batch: list[ColdPart], errors: dict[ColdPart, OSError] | None, error: Exception | None) -> None:
        ended: list[_Load] = []
        for part in batch:
            for load in self._loading.pop(part):
                load.left -= 1
                load.error = load.error or error or (errors or {}).get(part)
                if not load.left:
                    ended.append(load)
            if error is None and part not in (errors or {}):
                self._note_read(part)
        self._reading = False
        self._go_on()
        for load in ended:
            call(load.done, load.error)

    def _note_read(self, part: ColdPart) -> None:
        """Blocks that were just read count as sure: some file systems cannot say that they are in memory."""
        path, start, size = part
        sure = self._sure.get(self._starts.get(path, _NOWHERE))
        if sure is not None:
            first, end = start >> BLOCK_BITS, (start + size - 1 >> BLOCK_BITS) + 1
            sure[first:end] = b"\1" * (end - first)
        if not self._loading:
            self._starts.clear()

    def _go_on(self) -> None:
        seconds = 0.0
        with contextlib.suppress(Exception):  # then without a rest
            seconds = self.rest()
        if not self._asked:
            return
        if seconds:
            self._reading = True
            self.spawn("rest", self._rest(seconds))
        else:
            self._read_next()

    async def _rest(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._read_next()

    def _read(self, batch: list[ColdPart]) -> dict[ColdPart, OSError]:
        """On the worker; why the parts that could not be read could not."""
        errors: dict[ColdPart, OSError] = {}
        for path, group in groupby(sorted(batch), key=itemgetter(0)):
            parts = [*group]
            try:
                self._read_file(path, parts, errors)
            except FileNotFoundError:
                pass  # expired meanwhile; the reader finds that out
            except OSError as error:
                errors |= dict.fromkeys(parts, error)
        return errors

    def _read_file(self, path: Path, parts: list[ColdPart], errors: dict[ColdPart, OSError]) -> None:
        """OSError if it cannot be opened."""
        # Opened anew: the loop may close the store's file while the worker reads.
        with closing(self._files.open(path, read_only=True)) as file:
            for start, end, members in _joined(parts):
                try:
                    if end > file.size:  # a look at the view behind it would kill the process
                        raise OSError(errno.EIO, f"the file was cut to {file.size} bytes", str(path))
                    for at in range(start, end, _READ_BYTES):
                        file.pread(min(_READ_BYTES, end - at), at)
                except OSError as error:
                    errors |= dict.fromkeys(members, error)


def _joined(parts: Iterable[ColdPart]) -> list[tuple[int, int, list[ColdPart]]]:
    """Parts of one file, in order, as stretches (start, end, the parts in it) with gaps between them."""
    stretches: list[tuple[int, int, list[ColdPart]]] = []
    for part in parts:
        _path, start, size = part
        if stretches and start <= stretches[-1][1]:
            first, end, members = stretches[-1]
            stretches[-1] = first, max(end, start + size), [*members, part]
        else:
            stretches.append((start, start + size, [part]))
    return stretches
