"""The messages of one tick that is over, read in pieces: none of them keeps the loop for long, however many they are.

Owns        the order of delivery, each message once, which messages of the tick are taken back.
Must not know   whether a tick is over, how a copy is stored.

The timer log leads from the newest unit of a tick to the oldest. So all are read before the first one is delivered.
Units come into a tick in the order of the log, so each one read lies below the one before. Only a crash puts in some of
them a second time; then what was read is remembered.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Callable

from rocketlake.base.pure_import import has_kernel
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.store.timer.layout import DELETE, NOWHERE, ROLL, Unit
from rocketlake.store.timer.timer_store import TimerStore
from rocketlake.store.timer.unit_stack import ROW_WORDS, UnitStack

__all__ = ["DueTick", "recalled_by"]

_RECALLS_A_STEP = 32
_KERNEL = "rocketlake.store.timer.unit_run"
_kernel = importlib.import_module(_KERNEL) if has_kernel(_KERNEL) else None
_UNITS_A_STEP = 1024 if _kernel is None else 16384


class DueTick:
    """What comes into the wheel behind its making is none of this tick."""

    def __init__(
        self, timers: TimerStore, time_ms: int, message: Callable[[Unit], tuple[StoredMessage, bytes] | None]
    ) -> None:
        """`message`: reads that of a unit; None if there is none any more."""
        self.units = UnitStack()
        """What is to be delivered."""
        self.keys: frozenset[bytes] = frozenset()
        """Unique keys of which one topic's message is taken back, when all is read."""
        self._timers = timers
        self._place = timers.newest_place(time_ms)
        self._message = message
        self._lowest = 1 << 62
        self._seen: set[int] | None = None
        """None while each unit lies below the one before."""
        self._recalls: UnitStack | None = UnitStack()
        self._taken_back: set[tuple[str, str]] = set()

    @property
    def is_read(self) -> bool:
        """True when all units and recalls were read."""
        return self._recalls is None

    def read_on(self) -> None:
        """Read the next piece. Raises NotInMemory or OSError: call it again."""
        assert self._recalls is not None
        if self._place == NOWHERE:
            self._read_recalls(self._recalls)
            return
        rows, self._place = self._timers.chain_rows(self._place, _UNITS_A_STEP)
        at = 0
        while at < len(rows):
            if _kernel is not None and self._seen is None:
                simple = ROW_WORDS * _kernel.count_simple(rows, at // ROW_WORDS, self._lowest)
                if simple:
                    self.units.push(rows[at : at + simple])
                    at += simple
                    self._lowest = rows[at - ROW_WORDS]
                    continue
            self._take(rows[at : at + ROW_WORDS], self._recalls)
            at += ROW_WORDS

    def _take(self, row: array[int], recalls: UnitStack) -> None:
        """Take one unit, if it is not put in twice."""
        physical_offset = row[0]
        if physical_offset >= self._lowest and self._seen is None:
            self._seen = {*self.units.rows[::ROW_WORDS], *recalls.rows[::ROW_WORDS]}
        if self._seen is not None:
            if physical_offset in self._seen:
                return
            self._seen.add(physical_offset)
        self._lowest = min(self._lowest, physical_offset)
        is_recall = row[2] & DELETE and not row[2] & ROLL
        (recalls if is_recall else self.units).push(row)

    def _read_recalls(self, recalls: UnitStack) -> None:
        for _ in range(min(_RECALLS_A_STEP, len(recalls))):
            found = self._message(recalls.last())
            if found is not None:
                self._taken_back.add(recalled_by(found[0]))
            recalls.drop(1)
        if not recalls:
            self._recalls = None
            self.keys = frozenset(key.encode(errors="replace") for _topic, key in self._taken_back)

    def is_taken_back(self, message: StoredMessage) -> bool:
        """True if a recall of this tick names the message, and its topic (Apache asks for no topic)."""
        return (message.properties.get(names.REAL_TOPIC), message.unique_key) in self._taken_back


def recalled_by(message: StoredMessage) -> tuple[str, str]:
    """(topic, unique key) of what a recall names."""
    topic = message.properties.get(names.REAL_TOPIC, "")
    # Brokers 5.3.2 and 5.3.3 write the topic, too; so does appendTopicForTimerDeleteKey of later ones.
    return topic, message.properties.get(names.TIMER_DELETE_UNIQUE_KEY, "").removeprefix(f"{topic}+")
