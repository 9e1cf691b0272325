"""The clients of a simulated group: they send, send again and read, and write down what they were told.

Owns        producers, consumers, their notes; what the notes must agree with at the end.
Must not know   how brokers and controllers work.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

from rocketlake.base.service import Service
from rocketlake.controller.group import Group
from rocketlake.testing.replicas.promises import Broken, Entry
from rocketlake.testing.replicas.wires import Process

__all__ = ["Clients"]

_ANSWER_SECONDS, _SEND_SECONDS, _PAUSE_SECONDS = 0.5, 4.0, 0.05
_PRODUCERS, _CONSUMERS = 2, 2


class Clients(Service):
    """All clients of one run."""

    def __init__(self, world: Any) -> None:
        super().__init__("clients", world.clock)
        self.world = world
        self.process = Process("clients")
        self.process.is_up = True
        self.sends: dict[tuple[int, int], list[int]] = {}
        """Entry numbers of the tries of each send, by producer and place."""
        self.told: dict[tuple[int, int], float] = {}
        """When a send was acknowledged to its producer."""
        self.seen: list[list[Entry]] = [[] for _ in range(_CONSUMERS)]
        self._numbers = 0
        self._master = 1

    async def start(self) -> None:
        """All begin."""
        await super().start()
        for number in range(_PRODUCERS):
            self.spawn(f"producer {number}", self._produce(number))
        for number in range(_CONSUMERS):
            self.every(f"consumer {number}", 0.2, partial(self._consume, number))

    async def _produce(self, producer: int) -> None:
        place = 0
        while self.is_running:
            place += 1
            await self._send((producer, place))
            await self.world.clock.sleep(self.world.random.uniform(0.02, 0.1))

    async def _send(self, key: tuple[int, int]) -> None:
        until = self.world.now() + _SEND_SECONDS
        tries = self.sends.setdefault(key, [])
        while self.world.now() < until:
            self._numbers += 1
            tries.append(self._numbers)
            if await self._try(self._numbers):
                self.told[key] = self.world.now()
                return
            self._ask_route()
            await self.world.clock.sleep(_PAUSE_SECONDS)

    async def _try(self, number: int) -> bool:
        broker, wires = self.world.brokers[self._master], self.world.wires
        said: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answered(is_safe: bool) -> None:
            if not said.done():
                said.set_result(is_safe)

        def answer(is_safe: bool) -> None:
            wires.send(broker, self.process, partial(answered, is_safe))

        wires.send(self.process, broker, partial(broker.put, number, answer))
        await self.world.clock.wait(said, _ANSWER_SECONDS)
        return said.done() and said.result()

    def _ask_route(self) -> None:
        controller, wires = self.world.random.choice(self.world.controllers), self.world.wires

        def learn(group: Group) -> None:
            if group.master is not None:
                self._master = group.master

        answer = partial(wires.send, controller, self.process)
        wires.send(self.process, controller, lambda: controller.view(lambda group: answer(partial(learn, group))))

    def _consume(self, number: int) -> None:
        broker = self.world.random.choice(list(self.world.brokers.values()))
        if broker.is_up and not broker.is_paused:
            self._read(self.seen[number], broker)

    def _read(self, seen: list[Entry], broker: Any) -> None:
        seen.extend(broker.read(len(seen)))

    # -- the end -------------------------------------------------------------------------------------------------------

    def agree_with(self, log: list[Entry]) -> None:
        """Compare all notes with the log of the last master."""
        places = {number: at for at, (_epoch, number) in enumerate(log)}
        if len(places) != len(log):
            raise Broken("an entry is in the log twice")
        last: dict[int, int] = {}
        for (producer, place), tries in sorted(self.sends.items()):
            found = sorted(places[number] for number in tries if number in places)
            if (producer, place) in self.told and not found:
                raise Broken(f"send {place} of producer {producer} was acknowledged and is lost")
            if found and found[0] < last.get(producer, -1):
                raise Broken(f"send {place} of producer {producer} stands before an earlier one")
            last[producer] = max(last.get(producer, -1), found[0]) if found else last.get(producer, -1)
        for number, seen in enumerate(self.seen):
            if seen != log[: len(seen)]:
                raise Broken(f"consumer {number} has seen what is not in the log")

    def longest_gap(self, start: float, end: float) -> float:
        """Seconds between two acknowledgements."""
        moments = [start, *sorted(moment for moment in self.told.values() if start <= moment <= end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))
