"""How old the files of the log are, by two clocks: the wall clock may jump, the steady one does not know dates.

Owns        since when each file is full, the smaller of the two ages.
Must not know   which age is too old, how files are deleted.

A wall clock that is set forward by days makes every file look as if it had expired. So a file is no older than the
steady clock allows: for one that was filled since the start, the time since then; for an older one, its age at the
start and the time since. A clock that was wrong at the start already cannot be noticed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.clock import Clock
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.mapped_file import LogFile

__all__ = ["FileAges"]


class FileAges:
    """The ages of one log's files; made when the store starts."""

    def __init__(self, clock: Clock, files: Sequence[LogFile]) -> None:
        self._clock = clock
        self._start_ms = clock.now_ms()
        self._start = clock.monotonic()
        self._first = files[-1].start if files else PhysicalOffset(0)
        """Files that begin here or behind were filled since the start."""
        self._full: dict[PhysicalOffset, float] = {}
        """Start of such a file -> when it was first seen full, by the steady clock."""

    def look(self, files: Sequence[LogFile]) -> None:
        """Take note of files that are full by now; forget those that are gone."""
        now = self._clock.monotonic()
        for mapped in reversed(files[:-1]):
            if mapped.start < self._first or mapped.start in self._full:
                break
            self._full[mapped.start] = now
        begin = files[0].start if files else 0
        for start in [start for start in self._full if start < begin]:
            del self._full[start]

    def age_ms(self, mapped: LogFile, modified_ms: int) -> float:
        """How long ago the file was written last; `modified_ms`: the disk's time of that."""
        wall_ms = self._clock.now_ms() - modified_ms
        now = self._clock.monotonic()
        if mapped.start < self._first:
            steady_ms = max(0, self._start_ms - modified_ms) + (now - self._start) * 1000
        else:
            steady_ms = (now - self._full.get(mapped.start, now)) * 1000
        return min(wall_ms, steady_ms)
