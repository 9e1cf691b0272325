"""Old parts of the store that must be read from disk: never on the loop, but on a worker.

Owns        which blocks of the log may be looked at without waiting, and bringing others into memory.
Must not know   records, who reads, what waits meanwhile.

A block that was found in memory counts as sure for a second; then it is asked for again. Should the kernel drop it in
that second, a look at it waits for the disk as it would anywhere else.

Why: docs/decisions/0008-cold-reads-on-a-worker.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.files import Files
from rocketlake.base.worker import Worker
from rocketlake.store.mapped_file import MappedFile
from rocketlake.store.results import ColdPart

__all__ = ["BLOCK_BITS", "BLOCK_BYTES", "Residency"]

BLOCK_BITS = 18
BLOCK_BYTES = 1 << BLOCK_BITS

_SURE_SECONDS = 1.0
_READ_BYTES = BLOCK_BYTES

Done = Callable[[Exception | None], object]


@dataclass(slots=True)
class _Load:
    """Parts that one reader waits for."""

    left: int
    done: Done
    error: Exception | None = None


class Residency:
    """What is known of the page cache, for the files of a log."""

    def __init__(self, files: Files, clock: Clock, worker: Worker) -> None:
        self._files = files
        self._clock = clock
        self._worker = worker
        self._sure: dict[int, bytearray] = {}
        self._sure_until = 0.0
        self._loading: dict[ColdPart, list[_Load]] = {}

    def blocks(self, mapped: MappedFile) -> bytearray:
        """The blocks of a file, 1 for each that may be looked at in this turn of the loop."""
        now = self._clock.monotonic()
        if now >= self._sure_until:
            self._sure.clear()
            self._sure_until = now + _SURE_SECONDS
        sure = self._sure.get(mapped.start)
        if sure is None:
            sure = self._sure[mapped.start] = bytearray(-(-mapped.size // BLOCK_BYTES))
        return sure

    def sure_blocks(self, mapped: MappedFile, position: int, size: int) -> bytearray | None:
        """`blocks`, if these bytes may be looked at; None: they must be read from disk first."""
        sure = self.blocks(mapped)
        first, end = position >> BLOCK_BITS, (position + size - 1 >> BLOCK_BITS) + 1
        if 0 in sure[first:end]:
            part = self.cold_part(mapped, position, size)
            _path, start, length = part
            if part in self._loading or not mapped.file.is_resident(length, start):
                return None
            sure[first:end] = b"\1" * (end - first)
        return sure

    def cold_part(self, mapped: MappedFile, position: int, size: int) -> ColdPart:
        """The blocks that hold these bytes, to be read from disk."""
        start = position >> BLOCK_BITS << BLOCK_BITS
        end = (position + size - 1 >> BLOCK_BITS) + 1 << BLOCK_BITS
        return mapped.path, start, min(end, mapped.committed) - start

    def load(self, parts: Sequence[ColdPart], done: Done) -> None:
        """Read these parts on the worker, so that they are in memory; `done` runs on the loop.

        Many queues lie in one block, and all their readers come at once: each part is read once for all of them.
        """
        load = _Load(len(parts), done)
        for part in parts:
            waiting = self._loading.setdefault(part, [])
            waiting.append(load)
            if len(waiting) == 1:
                self._submit(part)

    def _submit(self, part: ColdPart) -> None:
        self._worker.submit(lambda: self._read(part), lambda _result, error: self._loaded(part, error))

    def _loaded(self, part: ColdPart, error: Exception | None) -> None:
        for load in self._loading.pop(part):
            load.left -= 1
            load.error = load.error or error
            if not load.left:
                load.done(load.error)

    def _read(self, part: ColdPart) -> None:
        # With a descriptor of its own: the loop may close the file while it is read here.
        path, position, size = part
        try:
            file = self._files.open(path, read_only=True)
        except FileNotFoundError:
            return  # expired meanwhile; who reads on will see
        try:
            # In few calls: between them the worker holds the interpreter, and the loop waits.
            for at in range(position, position + size, _READ_BYTES):
                file.pread(min(_READ_BYTES, position + size - at), at)
        finally:
            file.close()
