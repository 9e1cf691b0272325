"""Who counts as alive, by hand-driven time."""

from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.controller.questions import Heard
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness, Pulse
from tests.unit.controller.links import FakeLink

ONE = BrokerKey("b", 1)
OURS = Beat(Heard(epoch=2, end_offset=100), limit_ms=1000, ha_silent_ms=0)


def setting(limit_seconds: float = 1.0) -> tuple[ManualClock, Liveness, list[BrokerKey]]:
    clock, closed = ManualClock(), list[BrokerKey]()
    liveness = Liveness(clock, limit_seconds)
    liveness.on_closed.append(closed.append)
    return clock, liveness, closed


def test_a_broker_lives_as_long_as_its_heartbeats_come() -> None:
    clock, liveness, _ = setting()
    assert liveness.pulse(ONE) is Pulse.UNHEARD
    link = FakeLink()
    for _ in range(5):
        liveness.hear(ONE, link, OURS)
        clock.advance(1000)
        assert liveness.pulse(ONE) is Pulse.ALIVE
    clock.advance(1)
    assert liveness.pulse(ONE) is Pulse.SILENT
    liveness.hear(ONE, link, OURS)
    assert liveness.alive("b", {1, 2}) == {1: OURS.heard}


@pytest.mark.parametrize(
    ("profile_seconds", "own_ms", "limit_seconds"),
    [(1.0, 1000, 1.0), (3.0, 1000, 3.0), (1.0, 10_000, 10.0), (1.0, None, 10.0), (1.0, 2**40, 60.0), (1.0, -5, 1.0)],
)
def test_the_longer_limit_holds(profile_seconds: float, own_ms: int | None, limit_seconds: float) -> None:
    clock, liveness, _ = setting(profile_seconds)
    liveness.hear(ONE, FakeLink(), Beat(Heard(), limit_ms=own_ms))
    clock.advance(limit_seconds * 1000)
    assert liveness.pulse(ONE) is Pulse.ALIVE
    clock.advance(1)
    assert liveness.pulse(ONE) is Pulse.SILENT


def test_the_wall_clock_decides_nothing() -> None:
    clock, liveness, _ = setting()
    liveness.hear(ONE, FakeLink(), OURS)
    clock.jump_wall(3_600_000)
    assert liveness.pulse(ONE) is Pulse.ALIVE
    clock.jump_wall(-7_200_000)
    clock.advance(1001)
    assert liveness.pulse(ONE) is Pulse.SILENT


def test_a_closed_link_is_a_suspicion_until_the_next_heartbeat() -> None:
    _, liveness, closed = setting()
    link = FakeLink()
    liveness.hear(ONE, link, OURS)
    liveness.hear(BrokerKey("b", 2), link, OURS)
    liveness.link_lost(link)
    assert closed == [ONE, BrokerKey("b", 2)]
    assert liveness.pulse(ONE) is Pulse.CLOSED
    liveness.hear(ONE, FakeLink(), OURS)
    assert liveness.pulse(ONE) is Pulse.ALIVE


def test_the_late_end_of_an_older_link_says_nothing() -> None:
    """apache/rocketmq#11045: the broker has come back on another link before the old one was found dead."""
    _, liveness, closed = setting()
    old, new = FakeLink(), FakeLink()
    liveness.hear(ONE, old, OURS)
    liveness.hear(ONE, new, OURS)
    liveness.link_lost(old)
    assert closed == []
    assert liveness.pulse(ONE) is Pulse.ALIVE
    liveness.link_lost(new)
    assert closed == [ONE]


def test_a_log_that_became_shorter_is_believed() -> None:
    _, liveness, _ = setting()
    link = FakeLink()
    liveness.hear(ONE, link, Beat(Heard(epoch=2, end_offset=100)))
    liveness.hear(ONE, link, Beat(Heard(epoch=1, end_offset=40)))
    assert liveness.alive("b", {1}) == {1: Heard(epoch=1, end_offset=40)}


def test_a_refused_broker_is_dead_until_it_is_heard() -> None:
    _, liveness, _ = setting()
    heard: list[BrokerKey] = []
    liveness.on_heard.append(heard.append)
    liveness.refused(ONE)
    assert liveness.pulse(ONE) is Pulse.REFUSED
    assert liveness.last(ONE) is None
    liveness.hear(ONE, FakeLink(), OURS)
    liveness.hear(ONE, FakeLink(), OURS)
    assert liveness.pulse(ONE) is Pulse.ALIVE
    assert heard == [ONE]


def test_removed_members_are_forgotten_with_their_links() -> None:
    _, liveness, closed = setting()
    link, two = FakeLink(), BrokerKey("b", 2)
    liveness.hear(ONE, link, OURS)
    liveness.hear(two, link, OURS)
    liveness.forget_others({two})
    assert liveness.pulse(ONE) is Pulse.UNHEARD
    liveness.link_lost(link)
    assert closed == [two]
