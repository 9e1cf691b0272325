"""A simulated controller: the real decider, liveness, suspicion and elections, without their sockets.

Owns        the parts of one controller over its lives, its probes of simulated brokers.
Must not know   the rules of any of its parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from rocketlake.base.errors import LinkError
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import Group
from rocketlake.controller.questions import Heard, Question
from rocketlake.controller.registers.memory import MemoryRegister
from rocketlake.controller.watch.elections import Elections
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness
from rocketlake.controller.watch.probes import Door, Probes
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.testing.replicas.wires import Process

__all__ = ["NAME", "SimController"]

NAME = "group"
_PROBE_SECONDS = 0.3


class SimController(Process):
    """One controller."""

    def __init__(self, world: Any, number: int) -> None:
        super().__init__(f"controller-{number}")
        self.world = world
        self.register = MemoryRegister(world.shared, world.clock)
        self.register.delay_seconds = 0.001

    async def start(self) -> None:
        """A new process, which knows nothing."""
        self.life += 1
        self.is_up = True
        clock = self.world.clock
        self.liveness = Liveness(clock, 1.0)
        self.decider = Decider(self.register, clock, f"{self.name}-{self.life}")
        self.decider.decide = self.world.rules.decide
        probes = cast("Probes", _Probes(self))
        self.elections = Elections(self.decider, self.liveness, probes, clock, lambda: False)
        self.decider.on_changed.append(self._tell)
        await self.decider.start()
        await self.elections.start()

    async def stop(self) -> None:
        """kill -9: what is under way at the register goes on, or not."""
        self.is_up = False
        await self.elections.stop()
        await self.decider.stop()

    def hear(self, broker_id: int, link: Any, beat: Beat) -> None:
        """A heartbeat."""
        group = self.decider.groups.get(NAME)
        if group is not None and broker_id in group.members:
            self.liveness.hear(BrokerKey(NAME, broker_id), link, beat)

    def link_lost(self, link: Any) -> None:
        """A connection of heartbeats has ended."""
        self.liveness.link_lost(link)

    def view(self, answer: Callable[[Group], object]) -> None:
        """1004: the group, as it is known here."""
        group = self.decider.groups.get(NAME)
        if group is not None:
            answer(group)

    def ask(self, question: Question, answer: Callable[[Code, Group], object]) -> None:
        """One question; no answer if the register gives none."""
        self.decider.spawn("ask", self._ask(question, answer))

    async def _ask(self, question: Question, answer: Callable[[Code, Group], object]) -> None:
        try:
            decision = await self.decider.ask(NAME, question, lambda now: self.liveness.alive(NAME, now.members.keys()))
        except LinkError:
            return
        answer(decision.code, decision.group)

    def _tell(self, _name: str, _before: Group, after: Group, _ours: bool) -> None:
        for broker in self.world.brokers.values():
            self.world.wires.send(self, broker, lambda each=broker: each.learn(after))


class _Probes:
    """The questions of a controller to brokers."""

    def __init__(self, controller: SimController) -> None:
        self._controller = controller
        self._world = controller.world

    async def knock(self, address: str) -> Door:
        broker = self._world.named(address)
        if self._world.wires.are_cut(self._controller, broker) or (not broker.is_up and broker.listens):
            await self._world.clock.sleep(_PROBE_SECONDS)
            return Door.NO_ANSWER
        await self._world.clock.sleep(2 * self._world.wires.delay())
        return Door.OPEN if broker.is_up else Door.REFUSED

    async def log_of(self, address: str, known: Heard) -> Heard | None:
        broker = self._world.named(address)
        said: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        wires = self._world.wires

        def answered(heard: Heard) -> None:
            if not said.done():
                said.set_result(heard)

        wires.send(
            self._controller, broker, lambda: wires.send(broker, self._controller, lambda: answered(broker.heard()))
        )
        await self._world.clock.wait(said, _PROBE_SECONDS)
        return said.result() if said.done() else None
