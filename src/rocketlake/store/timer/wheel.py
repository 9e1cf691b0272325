"""The timer wheel: for each tick of two weeks, which units of the timer log wait for it.

Owns        the file of slots.
Must not know   units, what a tick means.

A slot belongs to the tick that is written in it: one of an earlier round counts as empty, and is used anew.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.seam import File, Files
from rocketlake.store.timer.layout import NOWHERE, SLOT_BYTES, SLOTS, Slot, pack_slot, unpack_slots

__all__ = ["TimerWheel"]

_LOOK_SLOTS = 1024
_CLEARED = pack_slot(NOWHERE, Slot(NOWHERE, NOWHERE, 0))


class TimerWheel:
    """The slots. All methods raise OSError when the disk refuses."""

    def __init__(self, path: Path, files: Files, precision_ms: int) -> None:
        """StoreError for a file of another length. `precision_ms`: the length of a tick."""
        self.precision_ms = precision_ms
        self._file: File = files.open(path, size=SLOTS * SLOT_BYTES, create=True)

    def slot(self, time_ms: int) -> Slot | None:
        """What waits for the tick of this time (epoch ms); None: nothing."""
        tick = time_ms // self.precision_ms
        ((found, slot),) = unpack_slots(self._file.pread(SLOT_BYTES, tick % SLOTS * SLOT_BYTES))
        return slot if found == tick else None

    def put(self, time_ms: int, slot: Slot) -> None:
        """Write a slot."""
        tick = time_ms // self.precision_ms
        self._file.pwrite(pack_slot(tick, slot), tick % SLOTS * SLOT_BYTES)

    def clear(self, time_ms: int) -> None:
        """Nothing waits for this tick any more: a clock that is set back must not find it again."""
        self._file.pwrite(_CLEARED, time_ms // self.precision_ms % SLOTS * SLOT_BYTES)

    def next_filled(self, from_ms: int, until_ms: int) -> int:
        """The first time from `from_ms` on, before `until_ms`, for which something waits; else `until_ms`.

        Looks at some thousand slots at most: a time before `until_ms` may be given back for which nothing waits.
        """
        tick, end = from_ms // self.precision_ms, until_ms // self.precision_ms
        place = tick % SLOTS
        count = min(end - tick, SLOTS - place, _LOOK_SLOTS)
        if count <= 0:
            return until_ms
        data = self._file.pread(count * SLOT_BYTES, place * SLOT_BYTES)
        if data.strip(b"\0"):
            for number, (found, _slot) in enumerate(unpack_slots(data)):
                if found == tick + number:
                    return found * self.precision_ms
        return (tick + count) * self.precision_ms

    def slots(self) -> list[tuple[int, Slot]]:
        """(time, slot) of all that are in use, in order of time; those of earlier rounds, too."""
        found = []
        for first in range(0, SLOTS, _LOOK_SLOTS):
            data = self._file.pread(min(_LOOK_SLOTS, SLOTS - first) * SLOT_BYTES, first * SLOT_BYTES)
            if data.strip(b"\0"):
                found += [(tick * self.precision_ms, slot) for tick, slot in unpack_slots(data) if tick > 0]
        return sorted(found)

    def sync(self) -> None:
        """Return when all slots survive a power cut. Blocking."""
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
