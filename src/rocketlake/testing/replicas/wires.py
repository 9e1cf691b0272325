"""The links between the processes of a simulated group: late, lost, cut in one direction, or in order as on TCP.

Owns        when a message arrives, and whether it does; processes that are down or paused.
Must not know   what the messages say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

__all__ = ["Process", "Stream", "Wires"]

_STUCK_SECONDS = (0.3, 3.0)


class Process:
    """One process: what arrives while it is paused waits, what arrives while it is down is lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0
        """Grows with each start: messages and timers of an older life are dropped."""
        self.is_up = False
        self._held: list[tuple[int, Callable[[], object]]] | None = None

    @property
    def is_paused(self) -> bool:
        """True between `pause` and `resume`."""
        return self._held is not None

    def pause(self) -> None:
        """Stop it as SIGSTOP does."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """What has arrived meanwhile is served at once."""
        held, self._held = self._held or [], None
        for life, deliver in held:
            self.arrive(life, deliver)

    def arrive(self, life: int, deliver: Callable[[], object]) -> None:
        """A message, or a timer, that was meant for this life."""
        if self.is_up and self.life == life:
            if self._held is not None:
                self._held.append((life, deliver))
            else:
                deliver()


class Wires:
    """All links."""

    def __init__(self, random: Random) -> None:
        self.cuts: set[tuple[str, str]] = set()
        """Directions, from and to, in which nothing arrives."""
        self.lost = 0.0
        """Share of the messages that are lost, streams apart."""
        self.slow = 1.0
        """Each way takes so many times as long."""
        self._random = random
        self._loop = asyncio.get_running_loop()

    def are_cut(self, one: Process, other: Process) -> bool:
        """True if no question with an answer passes."""
        return bool({(one.name, other.name), (other.name, one.name)} & self.cuts)

    def delay(self) -> float:
        """Seconds of one way."""
        return self._random.uniform(0.0002, 0.002) * self.slow

    def send(self, source: Process, target: Process, deliver: Callable[[], object]) -> None:
        """A message that may pass others, or be lost."""
        if (source.name, target.name) in self.cuts or self._random.random() < self.lost:
            return
        self._loop.call_later(self.delay(), target.arrive, target.life, deliver)

    def stuck(self) -> float:
        """Seconds until a connection tries again what did not pass."""
        return self._random.uniform(*_STUCK_SECONDS)

    def at(self, moment: float, call: Callable[[], object]) -> None:
        """Call at this time of the loop."""
        self._loop.call_at(moment, call)

    def now(self) -> float:
        """The loop's time."""
        return self._loop.time()


class Stream:
    """A connection of two processes: in order, and late rather than lost, until one of them has gone."""

    def __init__(self, wires: Wires, one: Process, other: Process) -> None:
        self.is_open = True
        self._wires = wires
        self._lives = {one.name: one.life, other.name: other.life}
        self._last = {one.name: 0.0, other.name: 0.0}

    def send(self, source: Process, target: Process, deliver: Callable[[], object]) -> None:
        """It arrives after all that was sent before in this direction."""
        if not self.is_open or source.life != self._lives[source.name]:
            return
        is_cut = (source.name, target.name) in self._wires.cuts
        moment = self._wires.now() + (self._wires.stuck() if is_cut else self._wires.delay())
        self._last[target.name] = moment = max(moment, self._last[target.name] + 1e-6)
        self._wires.at(moment, lambda: self._arrive(source, target, deliver))

    def _arrive(self, source: Process, target: Process, deliver: Callable[[], object]) -> None:
        if (source.name, target.name) in self._wires.cuts:
            self.is_open = False  # each end has to find that out by itself
        elif self.is_open:
            target.arrive(self._lives[target.name], deliver)
