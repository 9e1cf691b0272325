from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.cold_rest import ColdRest
from rocketlake.net.turns import Turns


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turns = Turns(self.clock, 0.00025)
        self.stored = 0
        self.rest = ColdRest(self.turns, lambda: self.stored, self.clock)

    async def work(self, ms: float) -> None:
        """A turn that takes so long."""
        self.turns.wait(lambda _end: self.clock.advance(ms))
        await asyncio.sleep(0)


async def test_while_messages_come_in_it_rests_five_times_as_long_as_the_work_took() -> None:
    world = World()
    await world.work(1)
    await world.work(2)
    world.stored = 10
    assert world.rest() == pytest.approx(0.015)
    world.stored = 20
    assert world.rest() == 0
    await world.work(1)
    world.stored = 30
    assert world.rest() == pytest.approx(0.005)


async def test_a_rest_is_bounded() -> None:
    world = World()
    await world.work(5000)
    world.stored = 10
    assert world.rest() == 0.03


async def test_without_sends_it_never_rests() -> None:
    world = World()
    await world.work(5)
    assert world.rest() == 0
    world.stored = 10
    assert world.rest() == 0  # that work was done before anything came in


async def test_a_read_is_recent_for_a_tenth_of_a_second() -> None:
    world = World()
    assert not world.rest.is_recent
    world.rest()
    world.clock.advance(99)
    assert world.rest.is_recent
    world.clock.advance(2)
    assert not world.rest.is_recent
