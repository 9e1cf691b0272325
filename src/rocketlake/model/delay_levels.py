"""The delay levels: a level is a number from 1, its delay is one entry of the setting `messageDelayLevel`.

Owns        reading that setting, level <-> queue id.
Must not know   messages, clocks.

The store needs it to put the time of delivery into a queue entry, the broker to park and deliver.
"""

from __future__ import annotations

import re

from rocketlake.base.errors import UsageError

__all__ = ["DEFAULT_LEVELS", "DelayLevels"]

DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d{1,9})([smhd])")
_LEVELS_MAX = 256


class DelayLevels:
    """The delays of all levels, in ms; level k lies in queue k - 1 of the delay topic."""

    __slots__ = ("_delays_ms",)

    def __init__(self, text: str = DEFAULT_LEVELS) -> None:
        """`text`: numbers with a unit s, m, h or d, separated by blanks. UsageError names the bad one."""
        delays = []
        for word in text.split():
            found = _LEVEL.fullmatch(word)
            if found is None:
                raise UsageError(
                    f"messageDelayLevel has {word!r}", hint="write a number and a unit s, m, h or d, such as 30s"
                )
            delays.append(int(found[1]) * _UNIT_MS[found[2]])
        if not 0 < len(delays) <= _LEVELS_MAX:
            raise UsageError(f"messageDelayLevel has {len(delays)} levels", hint=f"give 1 to {_LEVELS_MAX}")
        self._delays_ms = tuple(delays)

    @property
    def highest(self) -> int:
        """The highest level."""
        return len(self._delays_ms)

    def delay_ms(self, level: int) -> int:
        """The delay of a level from 1 to `highest`."""
        return self._delays_ms[level - 1]

    def clamp(self, level: int) -> int:
        """A level above the highest becomes the highest."""
        return min(level, len(self._delays_ms))

    @staticmethod
    def queue_id(level: int) -> int:
        """The queue of the delay topic that holds a level."""
        return level - 1
