"""The timer log: a unit of 52 bytes for each message that was put into the wheel.

Owns        its files, the place of the next unit, what of the end is sound after a crash.
Must not know   the wheel, messages.

Invariant: behind `end` lie zeros only, so that no later start takes a lost unit for a sound one.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketlake.base.disk.seam import File, Files
from rocketlake.base.errors import StoreError
from rocketlake.base.pure_import import has_kernel
from rocketlake.store.paths import offset_file_name
from rocketlake.store.timer.layout import (
    BLANK_BYTES,
    NOWHERE,
    UNIT,
    UNIT_BYTES,
    Unit,
    is_blank,
    pack_blank,
    unpack_unit,
)
from rocketlake.store.timer.unit_stack import ROW_WORDS, unit_rows

__all__ = ["TimerLog"]

_CHUNK_UNITS = 2048
_KERNEL = "rocketlake.store.timer.unit_run"
_kernel = importlib.import_module(_KERNEL) if has_kernel(_KERNEL) else None


class TimerLog:
    """The units. All methods raise OSError when the disk refuses."""

    def __init__(self, folder: Path, files: Files, file_bytes: int, safe_end: int) -> None:
        """Opens what is there; `recover` must follow. StoreError for a damaged file that was safe, below `safe_end`."""
        self.end = 0
        """The place of the next unit."""
        self.file_bytes = file_bytes
        self._folder = folder
        self._disk = files
        self._files: dict[int, File] = {}
        """By the place of their first byte, in order."""
        self._changed: set[int] = set()
        self._chunk = b""
        self._chunk_start = 0
        for start in sorted(int(name) for name in files.list_dir(folder) if len(name) == 20 and name.isdigit()):
            self._load(start, safe_end)

    def _load(self, start: int, safe_end: int) -> None:
        path = self._folder / offset_file_name(start)
        # The first one holds the safe end, or lies before it: a power cut may lose its name and keep a later one.
        is_next = start == next(reversed(self._files)) + self.file_bytes if self._files else start <= safe_end
        size = self._disk.size(path)
        if is_next and size == self.file_bytes and start % size == 0:
            self._files[start] = self._disk.open(path, size=size)
            self.end = self.start
        elif start >= safe_end and size <= self.file_bytes:
            self._disk.remove(path)  # a power cut in its first moments: nothing in it was ever safe
            self.sync_names()  # at once: else another one brings it back in place of the next file of this name
        else:
            raise StoreError(
                f"a file of the timer log has {size} bytes, or does not follow the one before",
                path=str(path),
                hint="start with the mappedFileSizeTimerLog that it was made with; if that is so, remove the folders"
                " timerlog and timerwheel and the file config/timercheck: they are made again from the commit log",
            )

    @property
    def start(self) -> int:
        """The place of the first byte that is there."""
        return next(iter(self._files), self.end)

    def recover(self, from_place: int) -> Iterator[tuple[int, Unit]]:
        """(place, unit) of all sound units from a file's begin on; then `end` is behind the last one, the rest is gone.

        `from_place`: some place in that file; what lies before its file is taken for sound.
        """
        start = max(self.start, from_place - from_place % self.file_bytes)
        self.end = start
        for file_start in [each for each in self._files if each >= start]:
            if file_start != self.end:
                break
            yield from self._units_of(file_start)
            self._changed.add(file_start)  # the process before may have been killed ahead of its sync
        self._cut()

    def _units_of(self, file_start: int) -> Iterator[tuple[int, Unit]]:
        """Moves `end` behind each unit before it is given, and into the next file behind a blank."""
        file, place = self._files[file_start], 0
        while True:
            data = file.pread(min(_CHUNK_UNITS * UNIT_BYTES, self.file_bytes - place), place)
            for at in range(0, len(data), UNIT_BYTES):
                left = self.file_bytes - place
                if left < UNIT_BYTES + BLANK_BYTES:
                    if len(data) - at >= BLANK_BYTES and is_blank(data, at, left):
                        self.end = file_start + self.file_bytes
                    return
                unit = unpack_unit(data, at)
                if unit is None:
                    return
                place += UNIT_BYTES
                self.end = file_start + place
                yield self.end - UNIT_BYTES, unit

    def _cut(self) -> None:
        behind = [each for each in self._files if each > self.end]
        for start in behind:
            self._files.pop(start).close()
            self._disk.remove(self._folder / offset_file_name(start))
        if behind:
            self.sync_names()
        place = self.end % self.file_bytes
        file = self._files.get(self.end - place)
        if file is not None and not file.is_zero_from(place):
            file.truncate(place)
            file.truncate(self.file_bytes)
            file.sync()

    def next_place(self, place: int) -> tuple[int, bytes]:
        """Where the next unit goes if units end at `place`, and what must lie in between: nothing, or a blank."""
        left = self.file_bytes - place % self.file_bytes
        return (place, b"") if left >= UNIT_BYTES + BLANK_BYTES else (place + left, pack_blank(left))

    def append(self, run: bytes) -> None:
        """Write units and blanks at the end, as `next_place` told. After an error nothing has been appended."""
        at, end = 0, self.end
        for start in range(end - end % self.file_bytes, end + len(run), self.file_bytes):
            self._file(start)  # before a byte is written: a full disk leaves no units behind the end
        while at < len(run):
            place = end % self.file_bytes
            part = run[at : at + self.file_bytes - place]
            self._file(end - place).pwrite(part, place)
            self._changed.add(end - place)
            at += len(part)
            end += len(part)
        self.end = end

    def _file(self, start: int) -> File:
        file = self._files.get(start)
        if file is None:
            self._disk.make_dirs(self._folder)
            path = self._folder / offset_file_name(start)
            file = self._files[start] = self._disk.open(path, size=self.file_bytes, create=True)
        return file

    def unit(self, place: int) -> Unit | None:
        """The unit there; None if there is none. Units of one tick mostly lie together, so they are read together."""
        if not self.start <= place < self.end:
            return None
        if not 0 <= place - self._chunk_start <= len(self._chunk) - UNIT_BYTES:
            file_start = place - place % self.file_bytes
            first = max(0, place - file_start - (_CHUNK_UNITS - 1) * UNIT_BYTES)
            self._chunk = self._files[file_start].pread(place - file_start + UNIT_BYTES - first, first)
            self._chunk_start = file_start + first
        return unpack_unit(self._chunk, place - self._chunk_start)

    def chain(self, place: int, most: int) -> tuple[list[Unit], int]:
        """(units of one tick from this place on, the newest first, at most so many; where the next one lies).

        The place is NOWHERE behind the oldest one. Called for many at a time: it does what `unit` does.
        """
        found: list[Unit] = []
        start, end, unpack = self.start, self.end, UNIT.unpack_from
        chunk, chunk_start = self._chunk, self._chunk_start
        while len(found) < most and start <= place < end:
            if not 0 <= place - chunk_start <= len(chunk) - UNIT_BYTES:
                self.unit(place)
                chunk, chunk_start = self._chunk, self._chunk_start
            size, previous, bits, written_ms, delay_ms, offset, record_bytes, topic_hash, _ = unpack(
                chunk, place - chunk_start
            )
            if size != UNIT_BYTES or not 0 < bits <= 0xF:
                return found, NOWHERE
            found.append(Unit(previous, bits, written_ms + delay_ms, offset, record_bytes, topic_hash))
            if previous >= place:
                return found, NOWHERE  # a damaged chain must not run in a circle
            place = previous
        return found, place if start <= place < end else NOWHERE

    def chain_rows(self, place: int, most: int) -> tuple[array[int], int]:
        """The same, as rows of a UnitStack."""
        if _kernel is None:
            units, place = self.chain(place, most)
            return unit_rows(units), place
        rows, is_sound = array("q"), True
        while is_sound and len(rows) < most * ROW_WORDS and self.start <= place < self.end:
            if not 0 <= place - self._chunk_start <= len(self._chunk) - UNIT_BYTES:
                self.unit(place)
            left = most - len(rows) // ROW_WORDS
            piece, place, is_sound = _kernel.read_chain(
                self._chunk, self._chunk_start, place, self.start, self.end, left
            )
            rows.frombytes(piece)
        return rows, place if is_sound and self.start <= place < self.end else NOWHERE

    def back(self) -> Iterator[tuple[int, Unit]]:
        """(place, unit) of all, the newest first."""
        place = self.end
        while place > self.start:
            if place % self.file_bytes == 0:
                place += (self.file_bytes - BLANK_BYTES) // UNIT_BYTES * UNIT_BYTES - self.file_bytes
            place -= UNIT_BYTES
            if (unit := self.unit(place)) is None:
                return
            yield place, unit

    def cut(self, place: int) -> None:
        """Forget the units from this place on, for good. Blocking."""
        self.end = place
        self._chunk = b""
        self._cut()

    def to_sync(self) -> list[File]:
        """The files that were written since the last call: their sync may run on another thread, beside appends."""
        changed, self._changed = self._changed, set()
        return [self._files[start] for start in changed if start in self._files]

    def sync(self) -> None:
        """Return when all units survive a power cut. Blocking."""
        for file in self.to_sync():
            file.sync()
        self.sync_names()

    def not_synced(self) -> None:
        """A sync failed: all files are to be synced again."""
        self._changed |= self._files.keys()

    def sync_names(self) -> None:
        """Return when the names of the files survive a power cut. Blocking."""
        self._disk.sync_dir(self._folder)

    def drop_before(self, safe_end: int, is_gone: Callable[[int], bool]) -> None:
        """Remove the oldest files below `safe_end` whose last unit's record (at this physical offset) `is_gone`.

        A message waits two days at most before it is stored anew, so nothing waits in such a file.
        """
        while (start := self.start) + self.file_bytes <= safe_end and len(self._files) > 1:
            last = self.unit(start + ((self.file_bytes - BLANK_BYTES) // UNIT_BYTES - 1) * UNIT_BYTES)
            if last is None or not is_gone(last.physical_offset):
                break
            self._files.pop(start).close()
            self._disk.remove(self._folder / offset_file_name(start))

    def close(self) -> None:
        """Give the files back."""
        for file in self._files.values():
            file.close()
        self._files.clear()
