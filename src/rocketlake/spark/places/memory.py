"""An object store in memory that loses answers, refuses, and does things late, all from one seed.

Owns        the objects, the faults, and what each fault does to a call.
Must not know   what the callers make of it.

The faults are those that real stores and their client libraries were seen to have: docs/internals/lake_commit.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import Enum

from rocketlake.base.clock import SystemClock
from rocketlake.spark.places.objects import Unanswered

__all__ = ["Fault", "Faults", "MemoryObjects"]


class Fault(Enum):
    """What happens to one call."""

    NONE = "done and answered"
    LOST_BEFORE = "not done, no answer"
    LOST_AFTER = "done, no answer"
    REPEATED = "done, no answer; the library asks again and is told of its own object"
    CONFLICT = "409: not done, because another put is under way, or none is"
    BUSY = "503: not done"
    LATE = "no answer; done later"


_OF_PUTS = (Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.REPEATED, Fault.CONFLICT, Fault.BUSY, Fault.LATE)
_OF_OTHERS = (Fault.LOST_BEFORE, Fault.BUSY)


class Faults:
    """Faults from a seed: single ones, and now and then a few calls in a row, more than a caller repeats."""

    def __init__(self, rng: random.Random, *, puts: float, others: float) -> None:
        """`puts`, `others`: the part of such calls that have a fault."""
        self._rng = rng
        self._puts = puts
        self._others = others
        self._left = 0
        self._kind = Fault.NONE
        self.seen: dict[Fault, int] = {}

    def next(self, *, is_put: bool) -> Fault:
        """The fault of the next call."""
        if self._left:
            self._left -= 1
        elif self._rng.random() < (self._puts if is_put else self._others):
            self._kind = self._rng.choice(_OF_PUTS if is_put else _OF_OTHERS)
            self._left = self._rng.randrange(2, 9) if self._rng.random() < 0.15 else 0
        else:
            return Fault.NONE
        kind = self._kind if is_put or self._kind in _OF_OTHERS else Fault.BUSY
        self.seen[kind] = self.seen.get(kind, 0) + 1
        return kind

    def lands(self) -> bool:
        """True if a late put is done before the next call."""
        return self._rng.random() < 0.2


class MemoryObjects:
    """One bucket. Without faults it is a good store."""

    def __init__(self, root: str, faults: Faults | None = None) -> None:
        self.root = root
        self.faults = faults
        self.objects: dict[str, tuple[bytes, int]] = {}
        self._late: list[tuple[str, bytes, bool]] = []

    def library_options(self) -> dict[str, str]:
        """No library knows this store."""
        return {}

    def create(self, key: str, data: bytes) -> bool:
        """As obstore tells it: False for a 409, and for the repeat of a put whose answer was lost."""
        fault = self._fault(is_put=True)
        if fault is Fault.CONFLICT:
            return False
        if fault is Fault.LATE:
            self._late.append((key, data, True))
        if fault in (Fault.LOST_BEFORE, Fault.BUSY, Fault.LATE):
            raise Unanswered(fault.value)
        made = self._apply(key, data, create=True)
        if fault is Fault.LOST_AFTER:
            raise Unanswered(fault.value)
        return made and fault is not Fault.REPEATED

    def put(self, key: str, data: bytes) -> None:
        """A plain put."""
        fault = self._fault(is_put=True)
        if fault is Fault.LATE:
            self._late.append((key, data, False))
        if fault in (Fault.LOST_BEFORE, Fault.BUSY, Fault.LATE, Fault.CONFLICT):
            raise Unanswered(fault.value)
        self._apply(key, data, create=False)
        if fault is Fault.LOST_AFTER:
            raise Unanswered(fault.value)

    def get(self, key: str) -> bytes | None:
        """The content."""
        self._answered()
        found = self.objects.get(key)
        return found[0] if found else None

    def head(self, key: str) -> tuple[int, int] | None:
        """Size and time."""
        self._answered()
        found = self.objects.get(key)
        return (len(found[0]), found[1]) if found else None

    def list(self, prefix: str, after: str = "") -> Iterator[str]:
        """Whole and new: all large stores list so."""
        self._answered()
        return iter(sorted(key for key in self.objects if key.startswith(prefix) and key > after))

    def delete(self, keys: Sequence[str]) -> None:
        """One by one: a lost answer may leave some."""
        for key in keys:
            self._answered()
            self.objects.pop(key, None)

    def writer(self, key: str) -> _MemorySending:
        """Nothing is there before its end."""
        return _MemorySending(self, key)

    def range(self, key: str, start: int, count: int) -> bytes:
        """A part of the content."""
        found = self.get(key)
        if found is None:
            raise FileNotFoundError(f"{self.root}/{key}")
        return found[start : start + count]

    def end_faults(self) -> None:
        """Be a good store from here on; what is late is done."""
        self.faults = None
        while self._late:
            self._land()

    def _fault(self, *, is_put: bool) -> Fault:
        if self.faults is None:
            return Fault.NONE
        while self._late and self.faults.lands():
            self._land()
        return self.faults.next(is_put=is_put)

    def _answered(self) -> None:
        if (fault := self._fault(is_put=False)) is not Fault.NONE:
            raise Unanswered(fault.value)

    def _land(self) -> None:
        key, data, create = self._late.pop(0)
        self._apply(key, data, create=create)

    def _apply(self, key: str, data: bytes, *, create: bool) -> bool:
        if create and key in self.objects:
            return False
        self.objects[key] = data, SystemClock().now_ms()
        return True


class _MemorySending:
    def __init__(self, objects: MemoryObjects, key: str) -> None:
        self._objects = objects
        self._key = key
        self._data = bytearray()

    def write(self, data: memoryview) -> None:
        """Kept until the end."""
        self._data += data

    def close(self) -> None:
        """A put: the store answers, or the task fails."""
        self._objects.put(self._key, bytes(self._data))

    def abort(self) -> None:
        """Nothing was sent."""
