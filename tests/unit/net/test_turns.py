"""A link with more work than fits into one turn goes to the end of the line. The clock is moved by hand: work takes the
time it says."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.net.turns import Turns


class Task:
    """Work of so many steps of one second."""

    def __init__(self, world: World, name: str, steps: int) -> None:
        self.world = world
        self.name = name
        self.steps = steps

    def go_on(self, turn_end: float) -> None:
        while self.steps:
            self.steps -= 1
            self.world.done.append(self.name)
            self.world.clock.advance(1000)
            if self.world.clock.monotonic() > turn_end:
                break
        if self.steps:
            self.world.turns.wait(self.go_on)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turns = Turns(self.clock, 1.5, 0.5)
        self.turns.is_brief = lambda: self.is_brief
        self.is_brief = False
        self.done: list[str] = []

    def begin(self, **steps: int) -> None:
        for name, count in steps.items():
            self.turns.wait(Task(self, name, count).go_on)

    async def turn(self) -> str:
        """What is done until the loop looks at its sockets."""
        before = len(self.done)
        await asyncio.sleep(0)
        return "".join(self.done[before:])


async def test_nothing_is_done_before_its_turn() -> None:
    world = World()
    assert not world.turns.is_taken
    world.begin(a=1)
    assert world.turns.is_taken
    assert world.done == []
    assert await world.turn() == "a"
    assert not world.turns.is_taken


async def test_all_who_wait_share_one_turn() -> None:
    world = World()
    world.begin(a=1, b=1, c=1)
    assert [await world.turn() for _ in range(3)] == ["ab", "c", ""]


async def test_turns_are_brief_while_the_work_has_no_end() -> None:
    world = World()
    world.begin(a=9)
    turns = [await world.turn()]
    world.is_brief = True
    turns += [await world.turn() for _ in range(2)]
    world.is_brief = False
    assert [*turns, await world.turn()] == ["aa", "a", "a", "aa"]


async def test_who_has_more_to_do_goes_to_the_end_of_the_line() -> None:
    world = World()
    world.begin(a=6, b=3, c=1)
    turns = [await world.turn() for _ in range(6)]
    assert turns == ["aa", "bb", "ca", "ba", "aa", ""]


def fail(*_any: object) -> None:
    raise ZeroDivisionError("a mistake")


async def test_work_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.turns.wait(fail)
    world.begin(a=1)
    assert "".join([await world.turn() for _ in range(3)]) == "a"
    assert "callback fail failed" in caplog.text


async def test_an_ending_that_fails_stops_neither_other_endings_nor_who_waits() -> None:
    world = World()
    ended: list[str] = []

    def end_badly(_until: float) -> None:
        world.turns.at_end(fail)
        world.turns.at_end(lambda: ended.append("other"))

    world.turns.wait(end_badly)
    world.begin(a=3)
    assert "".join([await world.turn() for _ in range(4)]) == "aaa"
    assert ended == ["other"]


async def test_a_failing_question_for_a_brief_turn_does_not_stop_the_turns() -> None:
    world = World()
    world.turns.is_brief = fail  # type: ignore[assignment]
    world.begin(a=1)
    assert await world.turn() == ""
    world.turns.is_brief = lambda: False
    assert "".join([await world.turn() for _ in range(3)]) == "a"
