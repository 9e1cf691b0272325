"""A request that is much work is served in turns, so other requests do not wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

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


async def test_work_for_a_link_that_is_gone_ends() -> None:
    world = World()
    assert world.begin(5) is HELD
    world.asker.closed = True
    for _ in range(3):
        await asyncio.sleep(0)
    assert (world.steps, world.asker.answers) == (2, [])
