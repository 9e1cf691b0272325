"""Changes that take many turns keep the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from rocketlake.base.clock import Clock, ManualClock
from rocketlake.model.topic import DataVersion, TopicConfig
from rocketlake.namesrv.change_line import Change, ChangeLine
from rocketlake.namesrv.liveness import Liveness
from rocketlake.namesrv.route_table import Registration, RouteTable
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode

NAMES = [f"T{number}" for number in range(50)]


class BrokerLink:
    remote = ("10.0.0.1", 1)

    def close(self) -> None: ...


class TickingClock(ManualClock):
    """Time goes on with each look at it, so each turn is over behind its first step."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


class World:
    def __init__(self) -> None:
        clock: Clock = TickingClock()
        self.routes = RouteTable(clock)
        self.line = ChangeLine(Turns(clock, 0.0), clock)
        self.liveness = Liveness(self.routes, self.line, clock)
        self.left = 0

    def add(self, change: Generator[None, None, Any]) -> None:
        def counted() -> Change:
            yield from change
            self.left -= 1

        self.left += 1
        self.line.add(counted())

    def register(self, link: BrokerLink, names: list[str], queues: int, version: int) -> None:
        topics = {name: TopicConfig(name, write_queues=queues) for name in names}
        new = Registration("c", "10.0.0.1:1", "b", 0, topics=topics, data_version=DataVersion(counter=version))
        self.add(self.routes.register(new, link))

    def queues(self) -> list[int]:
        """Write queues of each topic; 0 if there is no route."""
        routes = [self.routes.route(name) for name in NAMES]
        return [0 if route is None else route.queues[0].write_queues for route in routes]

    async def done(self) -> None:
        while self.left:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_of_two_registrations_the_later_one_wins_and_no_topic_is_missing_meanwhile() -> None:
    world, link = World(), BrokerLink()
    world.register(link, NAMES, 1, 1)
    await world.done()
    world.register(link, NAMES, 2, 2)
    world.register(link, NAMES, 3, 3)
    seen = set()
    while world.left:
        seen.add(tuple(world.queues()))
        await asyncio.sleep(0)
    assert len(seen) > 50  # questions came in between
    assert all(0 not in queues and queues == tuple(sorted(queues, reverse=True)) for queues in seen)
    assert world.queues() == [3] * 50


async def test_a_farewell_in_the_middle_of_a_registration_wins() -> None:
    world, link = World(), BrokerLink()
    world.register(link, NAMES, 1, 1)
    await asyncio.sleep(0)
    world.add(world.routes.unregister("c", "10.0.0.1:1", "b"))
    await world.done()
    assert (world.routes.topics(), world.routes.brokers()) == ([], {})


async def test_a_link_lost_in_the_middle_of_a_registration_takes_the_broker_with_it() -> None:
    world, link = World(), BrokerLink()
    world.register(link, NAMES, 1, 1)
    await asyncio.sleep(0)
    assert world.left
    world.liveness.link_lost(link)
    world.add(iter_nothing())
    await world.done()
    assert (world.routes.topics(), world.routes.brokers()) == ([], {})


async def test_a_broker_that_registers_while_it_is_being_forgotten_is_there_with_all_topics() -> None:
    world, link, new = World(), BrokerLink(), BrokerLink()
    world.register(link, NAMES, 1, 1)
    await world.done()
    world.liveness.link_lost(link)
    await asyncio.sleep(0)
    world.register(new, NAMES, 1, 1)
    await world.done()
    assert world.queues() == [1] * 50


async def test_a_change_that_fails_stops_no_other() -> None:
    world, link = World(), BrokerLink()

    def failing() -> Change:
        yield
        raise RuntimeError("broken")

    world.line.add(failing())
    world.register(link, NAMES, 1, 1)
    await world.done()
    assert world.queues() == [1] * 50


class Asker:
    """Keeps the codes of the answers to held requests."""

    address = "10.0.0.1:1"

    def __init__(self) -> None:
        self.codes: list[int] = []

    def answer(self, _request: Request, reply: Reply) -> None:
        self.codes.append(reply.code)


async def test_bodies_that_wait_have_a_limit_and_room_comes_back() -> None:
    world, asker, made = World(), Asker(), 0

    def serve(_request: Request) -> ReplySteps:
        nonlocal made
        yield
        made += 1
        return Reply()

    handle = world.line.handler(serve)
    body = bytes(16 * 1024 * 1024)  # the largest frame

    def ask(body: bytes) -> Reply | Held:
        return handle(Request(Command(1, body=body), asker, 0.0))  # type: ignore[arg-type]

    assert [ask(body) for _ in range(4)] == [HELD] * 4
    refused = ask(body)
    assert isinstance(refused, Reply)
    assert (refused.code, (refused.remark or "")[:10]) == (ResponseCode.SYSTEM_BUSY, "[OVERLOAD]")
    assert ask(b"") is HELD  # a farewell, say: it costs no room
    async with asyncio.timeout(20):
        while len(asker.codes) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (asker.codes, made) == ([0] * 5, 5)
    assert ask(body) is HELD


def iter_nothing() -> Change:
    yield
