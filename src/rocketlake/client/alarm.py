"""A sleep that can be cut short.

Owns        Alarm.
Must not know   what the sleeper waits for.
"""

from __future__ import annotations

import asyncio

from rocketlake.base.clock import Clock


class Alarm:
    """`await wait(seconds)` ends after that time, or at once when `ring()` is called; no ring is lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the present wait, or the next one at once."""
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """True when rung, false when the time was up."""
        if not self._rung.is_set():
            async with asyncio.TaskGroup() as tasks:
                waits = tasks.create_task(self._clock.sleep(seconds)), tasks.create_task(self._rung.wait())
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for each in waits:
                    each.cancel()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
