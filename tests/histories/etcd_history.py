"""Histories of swaps against scripted members of etcd that lose requests, lose answers, lag and carry out late.

Everything follows from the seed, on virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.testing.virtual_time import run_virtual
from tests.histories.swap_history import FIRST, Swapping, Wrong, check
from tests.histories.swappers import Swapper
from tests.unit.controller.etcd.scripted import SILENT, SILENT_MADE, Peer, Says, World

KEY = "g/a"


class History:
    """Three callers, each with a register of its own, and three members whose faults come by chance."""

    def __init__(self, seed: int, *, swaps: int = 40, register: Callable[..., EtcdRegister] = EtcdRegister) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.swaps = swaps
        self.register = register
        self.calls: list[Swapping] = []
        self.made = 0

    def run(self) -> None:
        """Raises Wrong, with the seed."""
        try:
            run_virtual(self._run(), self.clock)
        except Wrong as problem:
            raise Wrong(f"seed {self.seed}: {problem}") from None

    async def _run(self) -> None:
        world = World(self.clock)
        world.net.delay_ms = (0.1, 5.0)
        async with world.net:
            await world.listen()
            for peer in world.peers:
                peer.answer = self._faulty(world, peer)  # type: ignore[method-assign]
            callers = [
                Swapper(
                    name,
                    self.register(world.settings, world.net.host(name), self.clock),
                    KEY,
                    self.clock,
                    random.Random(self.random.random()),
                    self.calls,
                )
                for name in ("x", "y", "z")
            ]
            tasks = [world.net.spawn(caller.name, self._calls(caller)) for caller in callers]
            for task in tasks:
                await self.clock.wait(task, 10_000)
                task.result()
            await self.clock.sleep(100)  # what is late comes
            last = world.keys.now.get(f"/r/{KEY}".encode(), (FIRST, 0))[0]
            beside = world.keys.now.get(f"/r/{KEY}/beside".encode(), (FIRST, 0))[0]
            if beside != last:
                raise Wrong(f"{beside!r} stands beside {last!r}")
            self.made = check(self.calls, last)

    async def _calls(self, caller: Swapper) -> None:
        assert isinstance(caller.register, EtcdRegister)
        cluster = caller.register._cluster
        await cluster.start()
        for _ in range(self.swaps):
            if caller.random.random() < 0.4:
                await caller.read()
            await caller.swap()
            await self.clock.sleep(caller.random.choice((0.0, 0.001, 0.3, 2.0)))
        await cluster.stop()

    def _faulty(self, world: World, peer: Peer) -> Callable[..., Says]:
        truth = peer.answer

        def answer(path: str, ask: Any, token: str) -> Says:
            if path == "/version":
                return truth(path, ask, token)
            chance = self.random.random()
            if path == "/v3/kv/txn" and chance < 0.10:
                # The request waits in a member that is paused, and is carried out when it goes on.
                world.net.spawn("late", self._late(peer, ask))
                return SILENT
            if chance < 0.30:
                peer.script.append(self.random.choice((SILENT, SILENT_MADE, Says(), Says(is_made=True))))
            elif path == "/v3/kv/range" and "revision" not in ask and chance < 0.45:
                peer.revision = self.random.choice([revision for revision in world.keys.states][-4:])
            try:
                return truth(path, ask, token)
            finally:
                peer.revision = None

        return answer

    async def _late(self, peer: Peer, ask: dict[str, Any]) -> None:
        await self.clock.sleep(self.random.choice((0.2, 0.31, 1.0, 5.0, 60.0)))
        peer.swap(ask)
