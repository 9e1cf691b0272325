"""Where pops wait: what is kept of those that wait no longer."""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import ManualClock
from rocketlake.broker.held.wait_list import Waiter
from rocketlake.broker.pop.pop_hold import PopHold
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.net.link import Link
from rocketlake.net.turns import Turns

GROUPS = 20_000


async def test_pops_of_many_groups_at_topics_without_messages_leave_nothing(
    new_link: Callable[[ManualClock], Link],
) -> None:
    clock = ManualClock()
    hold = PopHold("hold", clock, Turns(clock, 0.0005), 10, 10)
    link, resumed = new_link(clock), list[str]()

    def wait(topic: str, group: str) -> None:
        hold.hold(Waiter((topic, group, ANY_QUEUE), -1, None, link, lambda: resumed.append(group)), 100)

    for number in range(GROUPS):
        wait(f"T{number}", "g")
        clock.advance(200)
        hold.expire()
    assert len(resumed) == GROUPS
    assert sum(hold.is_awaited(f"T{number}", 0) for number in range(GROUPS)) < GROUPS / 10
    wait("T", "last")
    hold.arrived("T", 0, 1, 0)
    await clock.settle()
    assert resumed[-1] == "last"
