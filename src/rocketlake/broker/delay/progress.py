"""How far each delay level is delivered.

Owns        the next queue offset of each level, the offset of each level that may be saved already, delayOffset.json.
Must not know   messages, when a message is due.

Invariant: the file, and with it the copy that slaves take, never says "delivered" of a message whose delivered copy
may still be lost: it is on disk, and in a group confirmed. After a crash a message may be delivered twice, none is lost
(Apache loses one if power fails before the copy is flushed).

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.broker.tables.saved_table import SavedTable

__all__ = ["DelayProgress"]


class DelayProgress(SavedTable):
    """Next queue offset by delay level."""

    holds = "the table of delay offsets"
    without_file = "to deliver all delayed messages again"

    def __init__(
        self, path: Path, files: Files, clock: Clock, kept_end: Callable[[], int], version_step: int = 200
    ) -> None:
        """`kept_end`: up to where the log cannot be lost; `version_step`: delayOffsetUpdateVersionStep."""
        super().__init__(path, files, clock, version_step=version_step)
        self._moved = False
        self._kept_end = kept_end
        self._next: dict[int, int] = {}
        self._safe: dict[int, int] = {}
        self._unsafe: dict[int, deque[tuple[int, int]]] = {}
        self._settled = 0
        """How many deliveries have become safe."""

    @property
    def changed(self) -> bool:
        """True if offsets are to be saved, now or when the log is safe."""
        return self._moved or bool(self._unsafe)

    @changed.setter
    def changed(self, changed: bool) -> None:
        self._moved = changed

    @property
    def edition(self) -> int:
        """Grows with all that may be saved: slaves copy that, and no delivery may follow that would tell them."""
        self._settle_all()
        return super().edition + self._settled

    def next_offset(self, level: int) -> int:
        """The queue offset to deliver next."""
        return self._next.get(level, 0)

    def move(self, level: int, next_offset: int, log_offset: int = 0) -> None:
        """Go on at `next_offset`. That may be saved once the commit log is safe up to `log_offset`."""
        self._next[level] = next_offset
        unsafe = self._unsafe.setdefault(level, deque())
        if unsafe:
            # A step without a copy of its own (a message that is gone) waits for the steps before it.
            log_offset = max(log_offset, unsafe[-1][0])
        unsafe.append((log_offset, next_offset))
        self._settle(level)
        self._note_change()

    def go_back(self) -> None:
        """Another broker delivers now: what is not safe of the deliveries of this one may be taken back."""
        self._settle_all()
        self._next = dict(self._safe)
        self._unsafe.clear()

    def to_text(self) -> str:
        """The text of delayOffset.json: of each level the offset that is safe."""
        self._settle_all()
        return to_pretty_text({"dataVersion": self._version_on_wire(), "offsetTable": dict(sorted(self._safe.items()))})

    def _take(self, wire: dict[str, Any]) -> None:
        self._safe = {int(level): int(offset) for level, offset in (wire.get("offsetTable") or {}).items()}
        self._next = dict(self._safe)
        self._unsafe.clear()

    def _settle_all(self) -> None:
        for level in list(self._unsafe):
            self._settle(level)

    def _settle(self, level: int) -> None:
        unsafe = self._unsafe[level]
        kept_end = self._kept_end()
        while unsafe and unsafe[0][0] <= kept_end:
            self._safe[level] = unsafe.popleft()[1]
            self._settled += 1
        if not unsafe:
            del self._unsafe[level]
