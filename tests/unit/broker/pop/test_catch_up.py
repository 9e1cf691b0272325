"""What a broker believes behind a start: check points of its own, and nothing of what it does not know any more."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.pop import POINT_SPAN_MAX
from rocketlake.protocol.bodies.pop import CheckPoint
from rocketlake.protocol.request_code import RequestCode
from tests.requests import send_header
from tests.unit.broker.pop.test_clock_steps import World


def test_a_delayed_message_that_looks_like_a_check_point_moves_no_group() -> None:
    world = World()

    async def test() -> None:
        assert await world.client.pop() == []  # the group is there from now on
        await world.send("one")
        point = CheckPoint(group="g", count=2, invisible_ms=1, pop_ms=1, queue_id=0, start_offset=0, topic="T")
        in_an_hour = world.clock.now_ms() + 3_600_000
        header = send_header("T", 0, f"TAGS\x01ck\x02TIMER_DELIVER_MS\x01{in_an_hour}\x02")
        assert (await world.client.ask(RequestCode.SEND_MESSAGE_V2, header, point.encode())).code == 0
        await world.restart()
        assert [each.body for each in await world.client.pop(poll_ms=1000)] == ["one"]

    world.play(test)


@pytest.mark.parametrize("members", ['"n":1000000000000000', f'"n":{POINT_SPAN_MAX + 1}'])
def test_a_check_point_of_more_messages_than_any_pop_hands_out_is_none(members: str) -> None:
    with pytest.raises(UsageError, match="more than"):
        CheckPoint.decode(f'{{"c":"g","it":1,{members},"pt":1,"q":0,"so":0,"t":"T"}}'.encode())


def test_an_acknowledgement_of_before_a_crash_passes_no_message_that_was_popped_with_it() -> None:
    """What a queue has handed out in order is not known behind a crash: messages before this one may be open."""
    world = World()

    async def test() -> None:
        assert await world.client.pop(order=True) == []
        await world.clock.sleep(20)  # topic and group are on disk
        await world.send("a", "b", "c")
        popped = await world.client.pop(order=True)
        assert [each.body for each in popped] == ["a", "b", "c"]
        await world.crash()
        assert (await world.client.ack(popped[2])).code == 0
        assert (await world.client.ack(popped[0])).code == 0, "before this one nothing is open"
        assert [each.body for each in await world.client.pop(order=True, poll_ms=1000)] == ["b", "c"]

    world.play(test)
