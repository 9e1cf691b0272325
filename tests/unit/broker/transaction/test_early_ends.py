"""Ends of transactions before the ledger is known: their order, their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.transaction.early_ends import EarlyEnds
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode


class World:
    def __init__(self, new_link: Callable[[ManualClock], Link]) -> None:
        self.clock = ManualClock()
        self.ledger = HalfLedger()
        self.is_late = False
        live = LiveConfig(BrokerConfig(broker_name="b", waiting_sends_max=3))
        self.early = EarlyEnds(self.serve, self.ledger, live, self.clock, is_late=lambda: self.is_late)
        self.link = new_link(self.clock)
        self.served: list[int] = []
        self.answers: dict[int, int] = {}
        self.link.answer = lambda request, reply: self.answers.update({request.command.opaque: reply.code})  # type: ignore[method-assign]

    def serve(self, request: Request) -> Reply:
        self.served.append(request.command.opaque)
        return Reply()

    def end(self, number: int) -> Reply | Held:
        command = Command(Code.END_TRANSACTION)
        command.opaque = number
        return self.early.end(Request(command, self.link, self.clock.monotonic()))


@pytest.fixture
async def world(new_link: Callable[[ManualClock], Link]) -> AsyncIterator[World]:
    world = World(new_link)
    await world.early.start()
    yield world
    await world.early.stop()


async def test_ends_wait_until_the_ledger_is_known_and_keep_their_order(world: World) -> None:
    assert [world.end(1), world.end(2)] == [HELD, HELD]
    await world.clock.run_for(1000)
    assert world.served == []
    world.ledger.is_known = True
    assert world.end(3) is HELD, "no end passes those that wait"
    await world.clock.run_for(20)
    assert (world.served, world.answers) == ([1, 2, 3], {1: 0, 2: 0, 3: 0})
    assert world.end(4) != HELD
    assert world.served == [1, 2, 3, 4]


async def test_ends_that_wait_do_not_have_the_loop_wait_for_the_next_file_of_the_log(world: World) -> None:
    world.end(1)
    world.ledger.is_known = world.is_late = True
    await world.clock.run_for(100)
    assert world.served == []
    world.is_late = False
    await world.clock.run_for(20)
    assert world.served == [1]


async def test_what_cannot_wait_is_refused(world: World) -> None:
    for number in (1, 2, 3):
        world.end(number)
    with pytest.raises(RemoteError, match="does not know yet"):
        world.end(4)
    await world.clock.run_for(4900)
    assert world.answers == {}
    await world.clock.run_for(200)
    refused = ResponseCode.SYSTEM_ERROR
    assert (world.served, world.answers) == ([], {1: refused, 2: refused, 3: refused})
    world.end(5)
    await world.early.stop()
    assert (world.served, world.answers[5]) == ([], refused)
    with pytest.raises(RemoteError, match="does not know yet"):
        world.end(6)
