"""Callers that swap one key as controllers do, and record what they are told."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.controller.registers.register import ABSENT, Conflict, OutcomeUnknown, Register, Swapped
from tests.histories.swap_history import FIRST, Swapping

__all__ = ["Swapper"]


@dataclass
class Swapper:
    """One caller. It knows the key from its last read or swap, decides, swaps, and reads again when it must."""

    name: str
    register: Register
    key: str
    clock: Clock
    random: random.Random
    history: list[Swapping] = field(default_factory=list)
    known: tuple[bytes, int] = (FIRST, ABSENT)
    number: int = 0

    async def swap(self) -> bool:
        """One swap; True if it was made."""
        base, revision = self.known
        self.number += 1
        value = f"{self.name}/{self.number}".encode()
        call = Swapping(self.clock.monotonic(), base, value)
        self.history.append(call)
        try:
            told = await self.register.swap(self.key, revision, value, {f"{self.key}/beside": value})
        except OutcomeUnknown:
            await self.read()
            return False
        except LinkError:
            call.end, call.made = self.clock.monotonic(), False
            return False
        call.end, call.made = self.clock.monotonic(), isinstance(told, Swapped)
        if isinstance(told, Conflict):
            call.found = FIRST if told.value is None else told.value
            self.known = (call.found, told.revision)
        else:
            self.known = (value, told.revision)
        return bool(call.made)

    async def read(self) -> None:
        """Look at the key; what is known stays when the register is out of reach."""
        try:
            found = await self.register.read(self.key)
        except LinkError:
            return
        value, revision = found.get(self.key, (FIRST, ABSENT))
        if revision > self.known[1]:
            self.known = (value, revision)
