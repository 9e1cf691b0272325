"""The set of replicas of one master: who counts, how far is confirmed, what becomes of a proposal."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.replication.sync_state_set import Follower, ReportRefused, SyncStateSet


def a_set(*recorded: int, copies_min: int = 2, start: int = 0, is_resumed: bool = False) -> SyncStateSet:
    return SyncStateSet(1, recorded or (1, 2), 7, start=start, copies_min=copies_min, is_resumed=is_resumed)


def follow(replicas: SyncStateSet, broker_id: int, offset: int, end: int) -> Follower:
    follower = replicas.connected(broker_id)
    replicas.report(follower, offset, end)
    return follower


def test_the_slowest_member_decides_what_is_confirmed() -> None:
    replicas = a_set(1, 2, 3)
    follow(replicas, 2, 500, 900)
    assert replicas.advance(900) == 0  # 3 has reported nothing
    third = follow(replicas, 3, 300, 900)
    assert replicas.advance(900) == 300
    replicas.report(third, 800, 900)
    assert (replicas.advance(900), replicas.behind(900)) == (500, {2, 3})


def test_a_replica_outside_the_set_does_not_count() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 3, 900, 900)
    assert replicas.advance(900) == 0
    follow(replicas, 2, 900, 900)
    assert (replicas.advance(900), replicas.behind(900)) == (900, set())


def test_a_set_that_is_too_small_confirms_nothing_and_one_of_one_confirms_its_own_log() -> None:
    alone = a_set(1)
    assert (alone.is_short, alone.advance(900)) == (True, 0)
    assert a_set(1, copies_min=1).advance(900) == 900


def test_a_report_beyond_the_end_is_refused() -> None:
    replicas = a_set()
    follower = replicas.connected(2)
    with pytest.raises(ReportRefused, match="replica 2 reports 901, but the log of its master ends at 900"):
        replicas.report(follower, 901, 900)
    assert (follower.reported, replicas.advance(900)) == (None, 0)


def test_only_the_newest_connection_of_a_replica_counts() -> None:
    replicas = a_set()
    old = follow(replicas, 2, 400, 900)
    new = replicas.connected(2)
    replicas.report(old, 800, 900)
    replicas.lost(old)
    assert (replicas.reported(2), replicas.advance(900)) == (None, 0)
    replicas.report(new, 500, 900)
    assert replicas.advance(900) == 500


def test_a_lost_member_freezes_the_confirm_offset_which_never_falls() -> None:
    replicas = a_set()
    follower = follow(replicas, 2, 500, 900)
    assert replicas.advance(900) == 500
    replicas.lost(follower)
    assert (replicas.advance(950), replicas.behind(950)) == (500, {2})
    late = follow(replicas, 2, 300, 950)
    assert replicas.advance(950) == 500
    replicas.report(late, 200, 950)
    assert late.reported == 300


@pytest.mark.parametrize(("offset", "may"), [(0, False), (399, False), (400, True), (900, True)])
def test_a_joiner_has_the_log_up_to_the_start_of_the_epoch(offset: int, may: bool) -> None:
    replicas = a_set(1, start=400)
    follow(replicas, 2, offset, 900)
    assert (replicas.may_join(2), replicas.propose([2]) is not None) == (may, may)


def test_a_joiner_has_all_that_is_confirmed() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 2, 700, 900)
    replicas.advance(900)
    third = follow(replicas, 3, 699, 900)
    assert not replicas.may_join(3)
    replicas.report(third, 700, 900)
    assert replicas.may_join(3)
    assert not replicas.may_join(2)
    assert not replicas.may_join(4)


def test_a_joiner_counts_from_the_moment_it_is_proposed() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 2, 900, 900)
    third = follow(replicas, 3, 100, 900)
    proposal = replicas.propose([3])
    assert proposal is not None
    assert (proposal.members, proposal.set_epoch, replicas.members) == ({1, 2, 3}, 7, {1, 2, 3})
    assert replicas.advance(900) == 100
    replicas.report(third, 600, 900)
    assert replicas.advance(900) == 600
    assert replicas.record([1, 2, 3], 8)
    assert (replicas.recorded, replicas.proposal, replicas.advance(900)) == ({1, 2, 3}, None, 600)


def test_a_joiner_does_not_end_a_shortage_before_it_is_recorded() -> None:
    replicas = a_set(1)
    follow(replicas, 2, 900, 900)
    assert replicas.propose([2]) is not None
    assert (replicas.is_short, replicas.advance(900)) == (True, 0)
    replicas.record([1, 2], 8)
    assert (replicas.is_short, replicas.advance(900)) == (False, 900)


def test_a_replica_that_leaves_counts_until_the_leave_is_recorded() -> None:
    replicas = a_set(1, 2, 3)
    follow(replicas, 2, 900, 900)
    proposal = replicas.propose(leaving=[3])
    assert proposal is not None
    assert (proposal.members, replicas.advance(900)) == ({1, 2}, 0)
    replicas.record(proposal.members, 8)
    assert replicas.advance(900) == 900


def test_one_replica_joins_while_another_leaves_in_one_proposal() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 3, 900, 900)
    proposal = replicas.propose([3], [2])
    assert proposal is not None
    assert (proposal.members, replicas.members) == ({1, 3}, {1, 2, 3})
    assert replicas.propose([3]) is None  # one in flight


def test_nothing_is_proposed_without_a_change_and_the_master_never_leaves() -> None:
    replicas = a_set(1, 2)
    assert replicas.propose([2, 9], [8]) is None
    with pytest.raises(UsageError, match="broker 1 cannot leave its own set of replicas"):
        replicas.propose(leaving=[1])


def test_a_proposal_closes_when_each_of_its_tries_was_refused() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 3, 900, 900)
    proposal = replicas.propose([3])
    assert proposal is not None
    replicas.asked()
    replicas.asked()  # the first try was not answered in time
    replicas.refused(proposal)
    assert replicas.members == {1, 2, 3}  # the first one may still be recorded
    replicas.refused(proposal)
    assert (replicas.proposal, replicas.members) == (None, {1, 2})


def test_a_late_refusal_does_not_close_another_proposal() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 3, 900, 900)
    first = replicas.propose([3])
    assert first is not None
    replicas.record([1, 2, 3], 8)
    second = replicas.propose(leaving=[2])
    replicas.asked()
    replicas.refused(first)
    assert replicas.proposal is second


def test_an_older_set_is_no_news() -> None:
    replicas = a_set(1, 2)
    replicas.propose(leaving=[2])
    assert not replicas.record([1], 7)
    assert (replicas.recorded, replicas.proposal is not None) == ({1, 2}, True)
    assert replicas.record([1, 2, 3], 12)
    assert (replicas.set_epoch, replicas.proposal) == (12, None)


def test_a_master_that_goes_on_in_an_old_epoch_confirms_nothing_before_the_set_changes() -> None:
    replicas = a_set(1, 2, is_resumed=True, start=900)
    follow(replicas, 2, 900, 900)
    assert (replicas.is_short, replicas.advance(900)) == (True, 0)
    replicas.record([1], 8)
    follow(replicas, 2, 900, 900)
    replicas.propose(joining=[2])
    replicas.record([1, 2], 9)
    assert replicas.advance(900) == 900


def test_after_a_change_that_is_not_ours_only_members_need_not_connect_again() -> None:
    """A controller took a replica out because its machine lost the end of the log: old reports say nothing."""
    replicas = a_set(1, 2, 3)
    member, outsider = follow(replicas, 2, 900, 900), follow(replicas, 3, 900, 900)
    replicas.record([1, 2], 8)
    assert (replicas.reported(2), replicas.reported(3), replicas.may_join(3)) == (900, None, False)
    replicas.report(member, 900, 900)
    with pytest.raises(ReportRefused, match="connect again"):
        replicas.report(outsider, 900, 900)
    follow(replicas, 3, 900, 900)
    assert replicas.may_join(3)


def test_after_a_change_of_ours_a_replica_that_left_may_come_back_at_once() -> None:
    replicas = a_set(1, 2)
    follow(replicas, 2, 900, 900)
    replicas.propose(leaving=[2])
    replicas.record([1], 8)
    assert replicas.may_join(2)
