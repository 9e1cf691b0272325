"""Which silence leads to an election, case by case."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rocketlake.base.clock import ManualClock
from rocketlake.controller.group import Group, Member
from rocketlake.controller.questions import Heard
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness
from rocketlake.controller.watch.suspicion import Action, counts_as_alive, judge
from tests.unit.controller.links import FakeLink

GROUP = Group(
    cluster="c",
    next_id=4,
    members={each: Member(address=f"h{each}:1", min_in_sync=2) for each in (1, 2, 3)},
    master=1,
    master_epoch=5,
    in_sync=frozenset({1, 2, 3}),
    in_sync_epoch=9,
    min_in_sync=2,
)


class Brokers:
    """Three brokers and the controller that hears them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.liveness = Liveness(self.clock, 1.0)
        self.links = {each: FakeLink(f"h{each}") for each in (1, 2, 3)}

    def beat(self, *ids: int, silent: int | None = 0, stalled: int = 0) -> None:
        for each in ids:
            beat = Beat(Heard(epoch=5, end_offset=7), limit_ms=1000, ha_silent_ms=silent, ack_stalled_ms=stalled)
            self.liveness.hear(BrokerKey("b", each), self.links[each], beat)

    def judge(self, group: Group = GROUP, *, unclean: bool = False) -> Action:
        return judge("b", group, self.liveness, unclean=unclean).action


def test_a_living_master_stays() -> None:
    brokers = Brokers()
    brokers.beat(1, 2, 3)
    assert brokers.judge() is Action.NOTHING
    assert counts_as_alive("b", GROUP, brokers.liveness)


def test_a_closed_link_is_looked_into_and_a_refused_connection_is_enough() -> None:
    brokers = Brokers()
    brokers.beat(1, 2, 3)
    brokers.liveness.link_lost(brokers.links[1])
    assert brokers.judge() is Action.PROBE
    assert counts_as_alive("b", GROUP, brokers.liveness)
    brokers.liveness.refused(BrokerKey("b", 1))
    assert brokers.judge() is Action.ELECT
    assert not counts_as_alive("b", GROUP, brokers.liveness)


@pytest.mark.parametrize(
    ("silent", "action"), [(None, Action.ELECT), (1100, Action.ELECT), (500, Action.ELECT), (100, Action.NOTHING)]
)
def test_a_silence_needs_the_word_of_the_replicas(silent: int | None, action: Action) -> None:
    """None: Java's brokers give no word."""
    brokers = Brokers()
    brokers.beat(1, 2, 3)
    brokers.clock.advance(1001)
    brokers.beat(2, 3, silent=silent)
    assert brokers.judge() is action


def test_one_replica_that_hears_the_master_is_enough() -> None:
    brokers = Brokers()
    brokers.beat(1)
    brokers.clock.advance(1001)
    brokers.beat(2, silent=5000)
    brokers.beat(3, silent=0)
    assert brokers.judge() is Action.NOTHING
    brokers.clock.advance(600)  # an old word counts no more
    assert brokers.judge() is Action.ELECT


def test_nothing_happens_while_nobody_can_follow() -> None:
    """The master is not taken out of office for nothing: if it comes back, it goes on."""
    brokers = Brokers()
    brokers.beat(1)
    brokers.clock.advance(5000)
    assert brokers.judge() is Action.NOTHING
    only = replace(GROUP, in_sync=frozenset({1}))
    brokers.beat(2, 3, silent=5000)
    assert brokers.judge(only) is Action.NOTHING
    assert brokers.judge(only, unclean=True) is Action.ELECT
    assert brokers.judge(replace(only, eligible=frozenset({2}))) is Action.ELECT


def test_after_a_total_loss_all_doubtful_replicas_are_waited_for() -> None:
    brokers = Brokers()
    lost = replace(GROUP, master=None, in_sync=frozenset(), doubtful=frozenset({1, 2}))
    brokers.beat(2, 3)
    assert brokers.judge(lost) is Action.NOTHING
    brokers.beat(1)
    assert brokers.judge(lost) is Action.ELECT


def test_a_group_without_a_master_gets_one_as_soon_as_a_replica_lives() -> None:
    brokers = Brokers()
    none = replace(GROUP, master=None, in_sync=frozenset({2}))
    assert brokers.judge(none) is Action.NOTHING
    brokers.beat(2)
    assert brokers.judge(none) is Action.ELECT
    assert brokers.judge(replace(none, master_epoch=0)) is Action.NOTHING


def test_a_new_controller_waits_for_the_first_heartbeat_of_a_master() -> None:
    brokers = Brokers()
    brokers.beat(2, 3, silent=None)
    assert brokers.judge() is Action.PROBE
    brokers.clock.advance(10_001)
    brokers.beat(2, 3, silent=None)
    assert brokers.judge() is Action.ELECT


def test_a_master_cut_off_from_its_replicas_is_replaced_if_they_are_enough() -> None:
    brokers = Brokers()
    brokers.beat(1, stalled=2500)
    brokers.beat(2, silent=2500)
    assert brokers.judge() is Action.NOTHING  # one replica alone could acknowledge nothing either
    brokers.beat(3, silent=2500)
    verdict = judge("b", GROUP, brokers.liveness)
    assert (verdict.action, verdict.deposes) == (Action.ELECT, True)
    assert counts_as_alive("b", GROUP, brokers.liveness)
    brokers.beat(1, stalled=0)
    assert brokers.judge() is Action.NOTHING


@pytest.mark.parametrize(
    ("silent", "stalled", "action"),
    [
        (1100, 2100, Action.ELECT),
        (900, 2100, Action.NOTHING),  # the link to the master may be just about to be made
        (2500, 1900, Action.NOTHING),
    ],
)
def test_a_master_that_its_replicas_hear_until_it_hangs_up_is_replaced_with_its_own_wait(
    silent: int, stalled: int, action: Action
) -> None:
    """What they report does not arrive, so it hangs up after a second, and they hear nothing from then on."""
    brokers = Brokers()
    brokers.beat(1, stalled=stalled)
    brokers.beat(2, 3, silent=silent)
    assert brokers.judge() is action
