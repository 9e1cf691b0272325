from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.held.wait_list import Waiter
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.net.link import Link
from rocketlake.net.turns import Turns

NewLink = Callable[[ManualClock], Link]


class Waiting:
    """Pulls held for one test, and which of them were taken up again."""

    def __init__(self, new_link: NewLink) -> None:
        self.clock = ManualClock()
        self.new_link = lambda: new_link(self.clock)
        self.turns = Turns(self.clock, 0.0005)
        self.hold = PullHold(self.clock, self.turns, held_max=3)
        self.resumed: list[str] = []
        self.link = self.new_link()

    def pull(
        self,
        name: str,
        *,
        queue_id: int = 0,
        offset: int = 0,
        tag: int | None = None,
        hold_ms: int = 1000,
        link: Link | None = None,
    ) -> None:
        match = None if tag is None else frozenset((tag,)).__contains__
        held = Waiter(("T", queue_id), offset, match, link or self.link, lambda: self.resumed.append(name))
        self.hold.hold(held, hold_ms)

    async def arrive(self, topic: str, queue_id: int, end: int, tag_code: int) -> None:
        self.hold.reached((topic, queue_id), end, tag_code)
        await self.clock.settle()

    def take_time(self, name: str) -> None:
        self.resumed.append(name)
        self.clock.advance(1)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.hold.expire()


@pytest.fixture
async def waiting(new_link: NewLink) -> Waiting:
    return Waiting(new_link)


async def test_a_message_wakes_the_pulls_of_its_queue_only(waiting: Waiting) -> None:
    waiting.pull("here")
    waiting.pull("elsewhere", queue_id=1)
    await waiting.arrive("T", 0, 1, 0)
    assert waiting.resumed == ["here"]
    assert len(waiting.hold) == 1


async def test_a_queue_is_waited_for_until_its_last_pull_is_woken_or_its_time_is_up(waiting: Waiting) -> None:
    assert not waiting.hold.has_waiters(("T", 0))
    waiting.pull("woken")
    waiting.pull("ended", offset=5)
    assert waiting.hold.has_waiters(("T", 0))
    assert not waiting.hold.has_waiters(("T", 1))
    await waiting.arrive("T", 0, 1, 0)
    assert waiting.hold.has_waiters(("T", 0))
    waiting.pass_time(1200)
    assert not waiting.hold.has_waiters(("T", 0))


async def test_pulls_are_woken_in_the_order_they_came(waiting: Waiting) -> None:
    for name in ("first", "second", "third"):
        waiting.pull(name)
    await waiting.arrive("T", 0, 1, 0)
    assert waiting.resumed == ["first", "second", "third"]


async def test_a_message_before_the_offset_asked_for_wakes_nobody(waiting: Waiting) -> None:
    waiting.pull("p", offset=5)
    await waiting.arrive("T", 0, 5, 0)
    assert waiting.resumed == []
    await waiting.arrive("T", 0, 6, 0)
    assert waiting.resumed == ["p"]


async def test_a_message_with_another_tag_leaves_the_pull_waiting(waiting: Waiting) -> None:
    waiting.pull("p", tag=7)
    await waiting.arrive("T", 0, 1, 8)
    assert waiting.resumed == []
    await waiting.arrive("T", 0, 2, 7)
    assert waiting.resumed == ["p"]


async def test_messages_of_one_turn_wake_together(waiting: Waiting) -> None:
    waiting.pull("p")
    waiting.hold.reached(("T", 0), 1, 0)
    assert waiting.resumed == []
    waiting.hold.reached(("T", 0), 2, 0)
    await waiting.clock.settle()
    assert waiting.resumed == ["p"]


async def test_woken_pulls_share_the_turns_with_others(waiting: Waiting) -> None:
    for number in range(3):
        pull = Waiter(("T", 0), 0, None, waiting.link, partial(waiting.take_time, f"p{number}"))
        waiting.hold.hold(pull, 1000)
    waiting.hold.reached(("T", 0), 1, 0)
    waiting.turns.wait(lambda _end: waiting.take_time("other"))
    await waiting.clock.settle()
    assert waiting.resumed == ["p0", "other", "p1", "p2"]


async def test_a_pull_is_ended_after_its_time_not_before(waiting: Waiting) -> None:
    waiting.pull("p", hold_ms=1000)
    waiting.pass_time(999)
    assert waiting.resumed == []
    waiting.pass_time(101)
    assert waiting.resumed == ["p"]
    assert len(waiting.hold) == 0


async def test_a_woken_pull_is_not_ended_again(waiting: Waiting) -> None:
    waiting.pull("p", hold_ms=1000)
    await waiting.arrive("T", 0, 1, 0)
    waiting.pass_time(5000)
    assert waiting.resumed == ["p"]


async def test_pulls_of_a_closed_link_are_forgotten(waiting: Waiting) -> None:
    other = waiting.new_link()
    waiting.pull("gone")
    waiting.pull("gone too", queue_id=1)
    waiting.pull("stays", link=other)
    waiting.link.connection_lost(None)
    await waiting.arrive("T", 0, 1, 0)
    waiting.pass_time(5000)
    assert waiting.resumed == ["stays"]


async def test_a_link_is_watched_once_however_often_it_pulls(waiting: Waiting) -> None:
    for _ in range(3):
        waiting.pull("p")
        await waiting.arrive("T", 0, 1, 0)
    assert len(waiting.link.on_close) == 1


async def test_there_is_a_bound_on_waiting_pulls(waiting: Waiting) -> None:
    for queue_id in range(3):
        assert not waiting.hold.is_full
        waiting.pull("p", queue_id=queue_id)
    assert waiting.hold.is_full


async def test_stop_answers_everybody_and_holds_no_more(waiting: Waiting) -> None:
    await waiting.hold.start()
    waiting.pull("p")
    await waiting.hold.stop()
    assert waiting.resumed == ["p"]
    assert waiting.hold.is_closed


async def test_the_timer_ends_holds_and_rests_when_there_are_none(waiting: Waiting) -> None:
    await waiting.hold.start()
    await waiting.clock.settle()
    assert waiting.clock.sleeping == 0
    waiting.pull("p", hold_ms=1000)
    await waiting.clock.run_for(1200)
    assert waiting.resumed == ["p"]
    assert waiting.clock.sleeping == 0
    waiting.pull("q", hold_ms=500)
    await waiting.clock.run_for(700)
    assert waiting.resumed == ["p", "q"]
    await waiting.hold.stop()


def fail() -> None:
    raise KeyError("a mistake")


async def test_a_pull_that_raises_when_it_is_woken_stops_no_other(waiting: Waiting) -> None:
    waiting.hold.hold(Waiter(("T", 0), 0, None, waiting.link, fail), 1000)
    waiting.pull("with it")
    await waiting.arrive("T", 0, 1, 0)
    waiting.pull("later", offset=1)
    await waiting.arrive("T", 0, 2, 0)
    assert waiting.resumed == ["with it", "later"]


async def test_a_pull_that_raises_at_its_deadline_stops_no_other(waiting: Waiting) -> None:
    waiting.hold.hold(Waiter(("T", 0), 0, None, waiting.link, fail), 1000)
    waiting.pull("with it")
    waiting.pull("behind it", hold_ms=2000)
    waiting.pass_time(1200)
    waiting.pass_time(1200)
    assert waiting.resumed == ["with it", "behind it"]


async def test_a_pull_may_close_the_link_of_others_whose_time_is_up(waiting: Waiting) -> None:
    def close() -> None:
        waiting.link.connection_lost(None)

    waiting.hold.hold(Waiter(("T", 0), 0, None, waiting.new_link(), close), 500)
    waiting.pull("of the link", hold_ms=1000)
    waiting.pass_time(3000)
    assert waiting.resumed == []
    assert len(waiting.hold) == 0
