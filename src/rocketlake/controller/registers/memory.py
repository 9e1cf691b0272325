"""A register in memory, for tests and simulations: several controllers share one, and a hand plays its faults.

Owns        the values and revisions, the next faults.
Must not know   disks, the network, what the values mean.

One register stands for the service; each controller has its own `MemoryRegister`, its link to that service, so that
links can be cut or slowed one by one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import LinkError
from rocketlake.controller.registers.register import ABSENT, Changed, Conflict, OutcomeUnknown, Swap, Swapped, Versioned
from rocketlake.controller.registers.watches import Watches

__all__ = ["Fault", "MemoryRegister", "SharedValues"]


class Fault(Enum):
    """One swap's fate."""

    CONFLICT = "another change came first: the key is as it was, its revision is a newer one"
    MADE_UNKNOWN = "the swap is made, its answer is lost"
    LOST_UNKNOWN = "the request is lost, and the caller cannot know it"
    LATE_UNKNOWN = "the caller gives up, the swap comes to the register later (`SharedValues.deliver_late`)"
    REFUSED = "the register is out of reach, nothing was sent"


class SharedValues:
    """The values that all links share."""

    def __init__(self) -> None:
        self.values: dict[str, Versioned] = {}
        self.watches = Watches()
        self.late: deque[Callable[[], Swap]] = deque()
        """Swaps that are still under way although their callers gave up."""
        self._revision = 0

    def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        """The swap itself: at one moment, for all links."""
        now, current = self.values.get(key, (None, ABSENT))
        if current != revision:
            return Conflict(now, current)
        self._revision += 1
        for name, new in {**(also or {}), key: value}.items():
            if new is None:
                self.values.pop(name, None)
            else:
                self.values[name] = (new, self._revision)
        self.watches.tell({key, *(also or ())})
        return Swapped(self._revision)

    def touch(self, key: str) -> None:
        """Give the key a newer revision, as another writer of the same value would."""
        value, revision = self.values.get(key, (None, ABSENT))
        if value is not None:
            self.swap(key, revision, value)

    def deliver_late(self) -> None:
        """The oldest swap that was under way comes to the register now."""
        self.late.popleft()()


class MemoryRegister:
    """One controller's link to the shared values."""

    def __init__(self, shared: SharedValues | None = None, clock: Clock | None = None) -> None:
        """`clock` times `delay_seconds`."""
        self.shared = shared or SharedValues()
        self.faults: deque[Fault | None] = deque()
        """The fates of the next swaps; None, or nothing: the swap goes well."""
        self.delay_seconds = 0.0
        """Each call takes this long to the values and the same time back."""
        self.is_cut = False
        """True: nothing reaches the values, every call fails, no watch is called."""
        self.misses_changes = False
        """True: watches are not called."""
        self._clock = clock or SystemClock()

    async def read(self, prefix: str) -> dict[str, Versioned]:
        """The values at the moment when the request arrives."""
        await self._travel()
        found = {key: value for key, value in self.shared.values.items() if key.startswith(prefix)}
        await self._travel()
        return found

    async def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        """As the next fault says; without one it goes well."""
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.REFUSED:
            raise _out_of_reach()
        await self._travel()
        made = partial(self.shared.swap, key, revision, value, also)  # now, later or never
        if fault is Fault.CONFLICT:
            self.shared.touch(key)
        elif fault is Fault.MADE_UNKNOWN:
            made()
        elif fault is Fault.LATE_UNKNOWN:
            self.shared.late.append(made)
        if fault in (Fault.MADE_UNKNOWN, Fault.LOST_UNKNOWN, Fault.LATE_UNKNOWN):
            await self._travel()
            raise OutcomeUnknown(f"no answer to the swap of {key}")
        outcome = made()
        try:
            await self._travel()
        except LinkError as error:
            raise OutcomeUnknown(f"no answer to the swap of {key}") from error
        return outcome

    def watch(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """Called in the turn of the change, if this link lets it through."""
        return self.shared.watches.add(
            prefix, lambda keys: None if self.is_cut or self.misses_changes else changed(keys)
        )

    async def _travel(self) -> None:
        if self.is_cut:
            raise _out_of_reach()
        if self.delay_seconds:
            await self._clock.sleep(self.delay_seconds)
        else:
            await asyncio.sleep(0)
        if self.is_cut:
            raise _out_of_reach()


def _out_of_reach() -> LinkError:
    return LinkError("the register is out of reach", hint="start it, or mend the link to it")
