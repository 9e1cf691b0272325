"""What was noted of late, by name: a process that lives long does not gather all names that it ever met.

Owns        the order of the names by their age, when one is forgotten.
Must not know   what is noted.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from rocketlake.base.clock import Clock

__all__ = ["Recent"]

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by name; each is forgotten `seconds` after it was put. All take O(1), spread over the puts."""

    __slots__ = ("_clock", "_seconds", "_values")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._values: dict[str, tuple[float, T]] = {}
        """With the monotonic time at which it was put; the oldest comes first."""

    def __len__(self) -> int:
        """How many are kept now: old ones go with the next put."""
        return len(self._values)

    def put(self, name: str, value: T) -> None:
        """Note it, in place of what was noted for this name."""
        now = self._clock.monotonic()
        self._values.pop(name, None)
        self._values[name] = now, value
        # The time of this call, read once: by a later one the new value might be over, too, and none be left.
        while self._is_over(oldest := next(iter(self._values)), now):
            del self._values[oldest]

    def get(self, name: str) -> T | None:
        """What was put last; None if it is forgotten."""
        if name not in self._values or self._is_over(name, self._clock.monotonic()):
            return None
        return self._values[name][1]

    def forget(self, name: str) -> None:
        """Nothing is noted for this name any more."""
        self._values.pop(name, None)

    def _is_over(self, name: str, now: float) -> bool:
        return now - self._values[name][0] >= self._seconds
