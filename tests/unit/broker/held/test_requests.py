"""Requests that wait for one outcome."""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.command import Command


class Held3:
    """Three requests that are held: two for one key, one for another."""

    def __init__(self, new_link: Callable[[ManualClock], Link]) -> None:
        self.held: HeldRequests[str] = HeldRequests()
        self.served: list[str] = []
        clock = ManualClock()
        self.requests = [Request(Command(1), new_link(clock), 0.0) for _ in range(3)]

    def serve(self, name: str, reply: Reply | Held | Exception) -> Callable[[Request], Reply | Held]:
        def handle(_request: Request) -> Reply | Held:
            self.served.append(name)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return handle


async def test_the_first_of_each_key_is_told_and_each_key_is_settled_alone(new_link: Callable[..., Link]) -> None:
    case = Held3(new_link)
    first, second, other = case.requests
    assert case.held.hold("T", first, case.serve("first", RemoteError("no", code=1)))
    assert not case.held.hold("T", second, case.serve("second", Reply()))
    assert case.held.hold("U", other, case.serve("other", HELD))
    assert (len(case.held), case.held.first, "U" in case.held) == (3, "T", True)
    case.held.settle("T")
    assert (len(case.held), case.held.first, "T" in case.held) == (1, "U", False)
    assert (case.served, first.answered, second.answered) == (["first", "second"], True, True)
    case.held.settle("U")
    assert (case.served, other.answered) == (["first", "second", "other"], False), "held again, by its own handler"
    assert case.held.hold("T", first, case.serve("again", Reply())), "nothing waits for a settled key"


async def test_all_are_served_by_another_handler_when_what_they_wait_for_does_not_matter_any_more(
    new_link: Callable[..., Link],
) -> None:
    case = Held3(new_link)
    for request, key in zip(case.requests, "TTU", strict=True):
        case.held.hold(key, request, case.serve("own", Reply()))
    case.held.settle_all(case.serve("instead", Reply(2)))
    assert case.served == ["instead"] * 3 and all(request.answered for request in case.requests)
