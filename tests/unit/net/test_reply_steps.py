"""A request that is much work is served in turns, so other requests do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.net.reply_steps import ReplySteps, in_steps
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command


class Asker:
    """The link's side of a request."""

    def __init__(self) -> None:
        self.closed = False
        self.address = "peer:1"
        self.answers: list[Reply] = []

    def answer(self, _request: Request, reply: Reply) -> None:
        self.answers.append(reply)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turns = Turns(self.clock, 1.5)
        self.asker = Asker()
        self.steps = 0

    def begin(self, steps: int, *, fail: bool = False) -> Any:
        def serve(_request: Request) -> ReplySteps:
            for _step in range(steps):
                self.steps += 1
                self.clock.advance(1000)
                yield
            if fail:
                raise UsageError("one too many")
            return Reply(remark="done")

        request = Request(Command(1), self.asker, 0.0)  # type: ignore[arg-type]
        return in_steps(serve, self.turns, self.clock)(request)


async def test_a_little_work_is_answered_at_once() -> None:
    assert World().begin(1).remark == "done"


async def test_much_work_is_held_and_answered_at_its_end_and_others_come_in_between() -> None:
    world = World()
    assert world.begin(5) is HELD
    seen = []
    while not world.asker.answers:
        seen.append(world.steps)
        await asyncio.sleep(0)
    assert seen == [2, 4]
    assert [reply.remark for reply in world.asker.answers] == ["done"]


async def test_an_error_behind_the_first_turn_is_the_answer() -> None:
    world = World()
    assert world.begin(5, fail=True) is HELD
    for _ in range(3):
        await asyncio.sleep(0)
    assert [reply.remark for reply in world.asker.answers] == ["one too many"]


@pytest.mark.parametrize("finishes", [False, True])
async def test_a_step_may_wait_and_the_steps_go_on_in_a_later_turn(finishes: bool) -> None:
    world = World()
    waits: list[Callable[[], object]] = []

    def serve(_request: Request) -> ReplySteps:
        yield waits.append
        yield
        world.steps += 1
        yield waits.append
        return Reply(remark="done")

    request = Request(Command(1), world.asker, 0.0)  # type: ignore[arg-type]
    assert in_steps(serve, world.turns, world.clock, finishes=finishes)(request) is HELD
    await asyncio.sleep(0)
    assert (len(waits), world.steps) == (1, 0)
    waits.pop()()
    assert world.steps == 0, "not in the turn of the call"
    await asyncio.sleep(0)
    assert (len(waits), world.steps, world.asker.answers) == (1, 1, [])
    world.asker.closed = True
    waits.pop()()
    await asyncio.sleep(0)
    assert [reply.remark for reply in world.asker.answers] == (["done"] if finishes else [])


async def test_work_for_a_link_that_is_gone_ends() -> None:
    world = World()
    assert world.begin(5) is HELD
    world.asker.closed = True
    for _ in range(3):
        await asyncio.sleep(0)
    assert (world.steps, world.asker.answers) == (2, [])
