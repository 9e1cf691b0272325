"""Waiting requests: answered, late, lost."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.net.asked import Asked, InvokeTimeout
from rocketlake.protocol.command import Command


class World:
    """Requests to one peer; what was written is kept."""

    address = "10.0.0.1:9876"

    def __init__(self, waiting_max: int = 20_000) -> None:
        self.written: list[Command] = []
        self.asked = Asked(self, self.written.append, waiting_max, ManualClock())

    def start(self, seconds: float) -> asyncio.Future[Command]:
        return self.asked.start(Command(7), seconds * 1000)


async def test_an_answer_goes_to_who_asked() -> None:
    world = World()
    futures = [world.start(1.0) for _ in range(3)]
    assert [command.opaque for command in world.written] == [0, 1, 2]
    assert world.asked.resolve(Command(7, opaque=1))
    assert (await futures[1]).code == 7
    assert not futures[0].done()
    assert len(world.asked) == 2


async def test_a_late_answer_is_dropped() -> None:
    world = World()
    future = world.start(1.0)
    world.asked.sweep(1.0)
    with pytest.raises(InvokeTimeout):
        await future
    assert not world.asked.resolve(Command(0, opaque=0))
    assert not world.asked.resolve(Command(0, opaque=99))


async def test_only_what_is_due_times_out() -> None:
    world = World()
    soon, late = world.start(1.0), world.start(2.0)
    world.asked.sweep(0.99)
    assert not soon.done()
    world.asked.sweep(1.5)
    assert isinstance(soon.exception(), InvokeTimeout)
    assert not late.done()


async def test_a_lost_link_fails_everyone_with_the_reason() -> None:
    world = World()
    futures = [world.start(1.0) for _ in range(3)]
    futures[2].cancel()
    world.asked.fail_all("link to a closed")
    for future in futures[:2]:
        with pytest.raises(LinkError, match="link to a closed"):
            await future
    assert len(world.asked) == 0


async def test_one_request_too_many_is_refused_and_one_way_requests_are_not_counted() -> None:
    world = World(waiting_max=1)
    world.start(1.0)
    with pytest.raises(LinkError, match=r"1 requests to 10.0.0.1:9876 wait for an answer.*send more slowly"):
        world.start(1.0)
    world.asked.send(Command(8))
    assert [command.is_oneway for command in world.written] == [False, True]
    assert len(world.asked) == 1


async def test_a_request_that_cannot_be_written_does_not_wait() -> None:
    def refuse(_command: Command) -> None:
        raise ProtocolError("too large")

    asked = Asked(World(), refuse, 10, ManualClock())
    with pytest.raises(ProtocolError):
        asked.start(Command(7), 1000)
    assert len(asked) == 0


async def test_deadlines_of_answered_requests_do_not_pile_up() -> None:
    world = World()
    for opaque in range(10_000):
        future = world.start(100.0)
        world.asked.resolve(Command(0, opaque=opaque))
        assert future.done()
    assert len(world.asked._deadlines) < 2000


class Noted:
    """A waiter that is no future."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def done(self) -> bool:
        return False

    def set_result(self, answer: Command) -> None:
        self.heard.append(answer.code)

    def set_exception(self, error: LinkError) -> None:
        self.heard.append(type(error))


async def test_many_requests_in_one_piece_are_numbered_and_wait_each_for_its_own_answer() -> None:
    world = World(waiting_max=4)
    future = world.start(1.0)
    waiters = [Noted() for _ in range(3)]
    made: list[int] = []
    frames = world.asked.expect([(each, 1.0 + n) for n, each in enumerate(waiters)], lambda n: made.append(n) or b"f")
    assert (frames, made, len(world.asked)) == (b"f", [1], 4)
    with pytest.raises(LinkError, match="4 requests to"):
        world.asked.expect([(Noted(), 1.0)], lambda _: b"")
    assert world.asked.waiter(2) is waiters[1]
    world.asked.forget(2)
    assert world.asked.resolve(Command(5, opaque=3))
    world.asked.sweep(1.5)
    assert [each.heard for each in waiters] == [[InvokeTimeout], [], [5]]
    assert isinstance(future.exception(), InvokeTimeout)
    assert len(world.asked) == 0


async def test_a_piece_that_cannot_be_made_waits_for_nothing() -> None:
    world = World()
    with pytest.raises(ZeroDivisionError):
        world.asked.expect([(Noted(), 1.0)], lambda number: b"" * (1 // number))
    assert len(world.asked) == 0


async def test_numbers_start_again_behind_the_largest() -> None:
    world = World()
    world.asked._next = 0x7FFFFFFF
    waiters = [Noted(), Noted()]
    world.asked.expect([(each, 1.0) for each in waiters], lambda _: b"")
    assert [world.asked.waiter(number) for number in (0x7FFFFFFF, 0)] == waiters
    world.start(1.0)
    assert world.written[-1].opaque == 1
