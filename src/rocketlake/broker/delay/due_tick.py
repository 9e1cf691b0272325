"""The messages of one tick that is over, read in pieces: none of them keeps the loop for long, however many they are.

Owns        the order of delivery, each message once, which messages of the tick are taken back.
Must not know   whether a tick is over, how a copy is stored.

The timer log leads from the newest unit of a tick to the oldest. So all are read before the first one is delivered.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.store.timer.layout import DELETE, NOWHERE, ROLL, Unit
from rocketlake.store.timer.timer_store import TimerStore

__all__ = ["DueTick", "recalled_by"]

_UNITS_A_STEP = 1024
_RECALLS_A_STEP = 32


class DueTick:
    """What comes into the wheel behind its making is none of this tick."""

    def __init__(
        self, timers: TimerStore, time_ms: int, message: Callable[[Unit], tuple[StoredMessage, bytes] | None]
    ) -> None:
        """`message`: reads that of a unit; None if there is none any more."""
        self.units: list[Unit] = []
        """What is to be delivered; the next one is the last."""
        self.keys: frozenset[bytes] = frozenset()
        """Unique keys of which one topic's message is taken back, when all is read."""
        self._timers = timers
        self._place = timers.newest_place(time_ms)
        self._message = message
        self._seen: set[int] = set()
        self._recalls: list[Unit] | None = []
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
        piece, self._place = self._timers.chain(self._place, _UNITS_A_STEP)
        for unit in piece:
            if unit.physical_offset in self._seen:
                continue  # it was put in twice: a crash came between
            self._seen.add(unit.physical_offset)
            is_recall = unit.bits & DELETE and not unit.bits & ROLL
            (self._recalls if is_recall else self.units).append(unit)

    def _read_recalls(self, recalls: list[Unit]) -> None:
        for _ in range(min(_RECALLS_A_STEP, len(recalls))):
            found = self._message(recalls[-1])
            if found is not None:
                self._taken_back.add(recalled_by(found[0]))
            recalls.pop()
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
