"""Two brokers in memory that get the same chunks: one serves them by runs, the other one by one.

Owns        the pair, the comparison of their answers, figures and files.
Must not know   what chunks hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from rocketlake.base.disk.faulty import FaultPlan
from rocketlake.net.limits import NetLimits
from rocketlake.protocol.command import Command
from tests.parity.worlds import World

__all__ = ["Pair"]


class _Traffic(Protocol):
    opaque: int
    """Of the newest request."""

    def learn(self, answers: list[Command]) -> None:
        """Take from the answers what later requests need."""


T = TypeVar("T", bound=_Traffic)


class Pair(Generic[T]):
    """Both brokers. Subclasses say what is compared besides, and send something before runs are counted."""

    def __init__(
        self, make_traffic: Callable[[Callable[[], int]], T], *, sync: bool = False, limits: NetLimits | None = None
    ) -> None:
        """`make_traffic` gets the clock, in ms."""
        self.plans = FaultPlan(), FaultPlan()
        self.fast, self.ordinary = (
            World(by_runs=by_runs, sync=sync, plan=plan, limits=limits)
            for by_runs, plan in zip((True, False), self.plans, strict=True)
        )
        self.worlds = self.fast, self.ordinary
        self.traffic = make_traffic(self.fast.clock.now_ms)
        self.in_runs: list[int] = []
        """How many records each run held."""
        self._seen = 0

    def noted(self, world: World) -> object:
        """What both brokers must know alike."""
        raise NotImplementedError

    def first_chunk(self) -> bytes:
        """It makes the log's first file, in the ordinary way."""
        raise NotImplementedError

    async def start(self) -> None:
        for world in self.worlds:
            await world.start()
        await self.wait(1000)
        put_run = self.fast.broker.ground.intake.put_run

        def count(records: Any, counts: Any) -> bool:
            self.in_runs.append(len(records))
            return put_run(records, counts)

        self.fast.broker.ground.intake.put_run = count  # type: ignore[method-assign]
        await self.send(self.first_chunk())
        self.in_runs.clear()

    async def send(self, chunk: bytes, *, other_link: bool = False) -> list[Command]:
        """The answers, the same from both."""
        for world in self.worlds:
            random.seed(self.traffic.opaque)  # what names no queue gets any
            await world.send(chunk, other_link=other_link)
        self.compare()
        answers = self.fast.peer.frames[self._seen :]
        self._seen = len(self.fast.peer.frames)
        self.traffic.learn(answers)
        return answers

    async def wait(self, ms: int) -> None:
        for world in self.worlds:
            random.seed(ms)
            await world.clock.run_for(ms)

    def each(self, change: Callable[[World], object]) -> None:
        for world in self.worlds:
            change(world)

    def compare(self) -> None:
        fast, ordinary = self.worlds
        assert fast.peer.lost == ordinary.peer.lost
        assert sorted(fast.peer.raw) == sorted(ordinary.peer.raw)
        fast_noted, ordinary_noted = self.noted(fast), self.noted(ordinary)
        assert fast_noted == ordinary_noted, f"by runs {fast_noted}, one by one {ordinary_noted}"

    async def stop(self) -> None:
        """Compare all that they leave behind."""
        await self.wait(2000)
        self.compare()
        assert self.fast.counts() == self.ordinary.counts()
        assert [world.broker.ground.intake.waiting for world in self.worlds] == [0, 0]
        for world in self.worlds:
            await world.stop()
        fast_files, ordinary_files = self.fast.contents(), self.ordinary.contents()
        assert fast_files.keys() == ordinary_files.keys()
        for path, data in fast_files.items():
            assert data == ordinary_files[path], path
