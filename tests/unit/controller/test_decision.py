"""Each question to the controller: Java's codes in Java's order, and our rules of who may be the master."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rocketlake.controller.decision import MEMBERS_MAX, Decision, decide
from rocketlake.controller.group import EMPTY, Group, Member, from_json, to_json
from rocketlake.controller.questions import AlterSet, ApplyId, Clean, Elect, Heard, LogKept, NextId, Question, Register
from rocketlake.protocol.response_code import ResponseCode as Code

ALL = {each: Heard(epoch=5, end_offset=100) for each in (1, 2, 3)}
SUCCESS = Code.SUCCESS


def ids(*broker_ids: int) -> frozenset[int]:
    return frozenset(broker_ids)


def group(
    *, sss: frozenset[int] = ids(1, 2, 3), elr: frozenset[int] = ids(), doubt: frozenset[int] = ids(), **fields: Any
) -> Group:
    """Three brokers; 1 is the master since epoch 5."""
    members = {each: Member(address=f"b{each}", boot_id="boot", min_in_sync=2) for each in (1, 2, 3)}
    state = Group(next_id=4, members=members, master=1, master_epoch=5, in_sync=sss, in_sync_epoch=9, min_in_sync=2)
    return replace(state, **{"eligible": elr, "doubtful": doubt, **fields})


def ask(state: Group, question: Question, *alive: int) -> Decision:
    """Decide, and see that only a reason comes with a change, and that the new state can be written and read."""
    answer = decide(state, question, {each: ALL[each] for each in alive})
    assert (answer.group != state) == bool(answer.why)
    assert from_json(to_json(answer.group)) == answer.group
    return answer


def elected(answer: Decision) -> tuple[int | None, set[int], set[int]]:
    return answer.group.master, set(answer.group.in_sync), set(answer.group.eligible)


# -- 1012, 1013: ids ---------------------------------------------------------------------------------------------------


def test_ids_are_given_once() -> None:
    state = EMPTY
    for number, address in enumerate(("a:1", "b:1"), 1):
        assert ask(state, NextId()).group.next_id == number
        state = ask(state, ApplyId("c", number, f"{address};17")).group
    assert (state.cluster, state.next_id) == ("c", 3)
    assert {each: member.address for each, member in state.members.items()} == {1: "a:1", 2: "b:1"}
    again = ask(state, ApplyId("c", 1, "a:1;17"))
    assert (again.code, again.why) == (SUCCESS, "")
    for taken in (ApplyId("c", 1, "b:1;17"), ApplyId("c", 0, "x"), ApplyId("c", 4, "x"), ApplyId("c", -1, "x")):
        assert ask(state, taken).code == Code.CONTROLLER_BROKER_ID_INVALID
    assert ask(EMPTY, ApplyId("c", 2, "a:1;17")).code == Code.CONTROLLER_BROKER_ID_INVALID


def test_a_removed_id_is_not_given_again() -> None:
    state = ask(ask(EMPTY, ApplyId("c", 1, "a")).group, Clean()).group
    assert (dict(state.members), ask(state, NextId()).group.next_id) == ({}, 2)
    assert ask(state, ApplyId("c", 1, "a")).code == Code.CONTROLLER_BROKER_ID_INVALID
    assert ask(state, ApplyId("c", 2, "a")).code == SUCCESS


def test_a_group_has_a_largest_size() -> None:
    state = replace(EMPTY, members={each: Member(address="a") for each in range(1, 1 + MEMBERS_MAX)}, next_id=99)
    assert ask(state, ApplyId("c", 99, "x")).code == Code.CONTROLLER_BROKER_ID_INVALID


# -- 1003: registration ------------------------------------------------------------------------------------------------


def test_an_unknown_broker_is_told_to_take_an_id() -> None:
    assert ask(EMPTY, Register(1, "a")).code == Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert ask(group(), Register(4, "a")).code == Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_a_new_address_is_recorded_and_the_rest_stays() -> None:
    same = Register(2, "b2", boot_id="boot", min_in_sync=2)
    assert ask(group(), same).why == ""
    moved = ask(group(), Register(2, "new", ha_address="ha", boot_id="boot", min_in_sync=2)).group
    assert (moved.members[2].address, moved.members[2].ha_address) == ("new", "ha")
    assert (moved.in_sync, moved.in_sync_epoch, moved.master_epoch) == (ids(1, 2, 3), 9, 5)


@pytest.mark.parametrize(
    ("boot_id", "log_kept", "may_lack"),
    [
        ("boot", LogKept.IN_MEMORY, False),
        ("other", LogKept.IN_MEMORY, True),
        ("", LogKept.IN_MEMORY, False),
        ("other", LogKept.ON_DISK, False),
        ("boot", LogKept.DAMAGED, True),
    ],
)
def test_a_log_that_may_be_short_is_not_electable(boot_id: str, log_kept: LogKept, may_lack: bool) -> None:
    answer = ask(group(), Register(2, "b2", boot_id=boot_id, log_kept=log_kept, min_in_sync=2))
    assert (answer.group.in_sync, answer.group.doubtful) == ((ids(1, 3), ids(2)) if may_lack else (ids(1, 2, 3), ids()))
    assert answer.group.in_sync_epoch == (10 if may_lack else 9)
    assert answer.group.members[2].boot_id == boot_id
    assert answer.group.master == 1


def test_a_master_whose_log_may_be_short_is_master_no_longer() -> None:
    answer = ask(group(sss=ids(1), elr=ids(2, 3)), Register(1, "b1", boot_id="other", min_in_sync=2))
    assert elected(answer) == (None, set(), {2, 3})
    assert (answer.group.master_epoch, answer.group.in_sync_epoch, answer.group.doubtful) == (6, 10, ids(1))
    assert elected(ask(answer.group, Elect(), 1, 2, 3)) == (2, {2}, {3})


def test_a_lost_log_ends_every_proposal_on_its_way() -> None:
    """The replica is in no set, but its master may just have proposed it, for what it had before."""
    answer = ask(group(sss=ids(1, 2)), Register(3, "b3", boot_id="other", min_in_sync=2), 1, 2)
    assert (answer.group.in_sync, answer.group.in_sync_epoch, answer.group.doubtful) == (ids(1, 2), 10, ids())
    proposal = AlterSet(1, 5, ids(1, 2, 3), 9)
    assert ask(answer.group, proposal, 1, 2, 3).code == Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_a_master_that_is_back_ends_what_it_had_proposed() -> None:
    answer = ask(group(sss=ids(1, 2)), Register(1, "b1", boot_id="boot", min_in_sync=2), 1, 2)
    assert (elected(answer), answer.group.master_epoch, answer.group.in_sync_epoch) == ((1, {1, 2}, set()), 5, 10)
    late = AlterSet(1, 5, ids(1, 2, 3), 9)
    assert ask(answer.group, late, 1, 2, 3).code == Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_a_master_with_another_promise_loses_the_eligible_replicas() -> None:
    answer = ask(group(sss=ids(1), elr=ids(2, 3)), Register(1, "b1", boot_id="boot", min_in_sync=1))
    assert (answer.group.min_in_sync, answer.group.eligible) == (1, ids())
    late = ask(answer.group, Register(1, "b1", boot_id="boot", min_in_sync=2))
    assert late.group.min_in_sync == 1, "an old request: it has acknowledged alone since"
    slave = ask(group(sss=ids(1), elr=ids(2, 3)), Register(2, "b2", boot_id="boot", min_in_sync=1))
    assert (slave.group.min_in_sync, slave.group.eligible) == (2, ids(2, 3))


def test_a_promise_that_comes_with_a_lost_log_leaves_the_eligible_replicas() -> None:
    """Nothing was acknowledged under it: they are all that is left."""
    lost = Register(1, "b1", boot_id="other", min_in_sync=1)
    answer = ask(group(sss=ids(1), elr=ids(2, 3)), lost)
    assert (elected(answer), answer.group.doubtful) == ((None, set(), {2, 3}), ids(1))
    assert elected(ask(with_lives(group(sss=ids(1), elr=ids(2, 3))), lives(1, "11", "10", min_in_sync=1))) == (
        None,
        {1},
        {2, 3},
    )


# -- 1001: the set -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "asked", "code"),
    [
        (EMPTY, AlterSet(1, 5, ids(1), 9), Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        (group(), AlterSet(2, 4, ids(1, 2, 3), 8), Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        (group(), AlterSet(2, 4, ids(4), 8), Code.CONTROLLER_INVALID_MASTER),
        (group(), AlterSet(1, 4, ids(4), 8), Code.CONTROLLER_FENCED_MASTER_EPOCH),
        (group(), AlterSet(1, 5, ids(4), 8), Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        (group(), AlterSet(1, 5, ids(4), 9), Code.CONTROLLER_INVALID_REPLICAS),
        (group(sss=ids(1, 2)), AlterSet(1, 5, ids(2, 3), 9), Code.CONTROLLER_BROKER_NOT_ALIVE),
        (group(), AlterSet(1, 5, ids(2, 3), 9), Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        (group(), AlterSet(1, 5, ids(), 9), Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
    ],
)
def test_a_set_is_refused_in_the_order_of_java(state: Group, asked: AlterSet, code: Code) -> None:
    assert ask(state, asked, 1, 2).code == code


def test_a_dead_member_does_not_stop_the_removal_of_another() -> None:
    answer = ask(group(), AlterSet(1, 5, ids(1, 2), 9))
    assert (answer.code, elected(answer)) == (SUCCESS, (1, {1, 2}, set()))


@pytest.mark.parametrize(
    ("sss", "elr", "new", "eligible"),
    [
        (ids(1, 2, 3), ids(), ids(1, 2), ids()),
        (ids(1, 2, 3), ids(), ids(1), ids(2, 3)),
        (ids(1, 2), ids(), ids(1), ids(2)),
        (ids(1), ids(2, 3), ids(1, 2), ids()),
        (ids(1), ids(3), ids(1, 2), ids()),
    ],
)
def test_replicas_stay_eligible_while_the_set_is_too_small(
    sss: frozenset[int], elr: frozenset[int], new: frozenset[int], eligible: frozenset[int]
) -> None:
    answer = ask(group(sss=sss, elr=elr), AlterSet(1, 5, new, 9), 1, 2, 3)
    assert (answer.group.in_sync, answer.group.eligible) == (new, eligible)
    assert (answer.group.in_sync_epoch, answer.group.master_epoch) == (10, 5)


def test_nobody_is_eligible_when_one_copy_is_enough() -> None:
    answer = ask(group(min_in_sync=1), AlterSet(1, 5, ids(1), 9), 1)
    assert elected(answer) == (1, {1}, set())


# -- 1002: the master --------------------------------------------------------------------------------------------------


def test_the_first_that_asks_is_the_first_master() -> None:
    """Its epoch is newer than those that the brokers bring from elsewhere."""
    state = group(sss=ids(), master=None, master_epoch=0, in_sync_epoch=0, min_in_sync=1)
    answer = ask(state, Elect(2), 1, 2)
    assert (elected(answer), answer.group.master_epoch, answer.group.min_in_sync) == ((2, {2}, set()), 6, 2)
    assert ask(state, Elect(), 1, 2).code == Code.CONTROLLER_MASTER_NOT_AVAILABLE
    assert ask(state, Elect(7), 1, 2).code == Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert ask(EMPTY, Elect()).code == Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


@pytest.mark.parametrize("asked", [Elect(), Elect(2), Elect(1, designate=True)])
def test_a_living_master_stays(asked: Elect) -> None:
    answer = ask(group(), asked, 1, 2, 3)
    assert (answer.code, answer.group.master) == (Code.CONTROLLER_MASTER_STILL_EXIST, 1)


def test_a_new_master_begins_an_epoch_alone_and_the_others_stay_eligible() -> None:
    answer = ask(group(sss=ids(1, 2)), Elect(), 2, 3)
    assert elected(answer) == (2, {2}, {1})
    assert (answer.group.master_epoch, answer.group.in_sync_epoch) == (6, 10)
    with_one_copy = group(members={each: Member(address=f"b{each}") for each in (1, 2, 3)})
    assert elected(ask(with_one_copy, Elect(), 2, 3)) == (2, {2}, set())


def test_the_longest_log_of_the_newest_epoch_wins_then_priority_then_the_id() -> None:
    def winner(two: Heard, three: Heard) -> int | None:
        return decide(group(), Elect(), {2: two, 3: three}).group.master

    assert winner(Heard(4, 900), Heard(5, 100)) == 3
    assert winner(Heard(5, 1 << 40), Heard(5, 100)) == 2
    assert winner(Heard(5, 100), Heard(5, 101)) == 3
    assert winner(Heard(5, 100, priority=9), Heard(5, 100, priority=-1)) == 3
    assert winner(Heard(5, 100), Heard(5, 100)) == 2


def test_who_cannot_lead_is_chosen_when_nobody_else_holds_everything() -> None:
    unfit, fit = Heard(5, 200, cannot_lead=True), Heard(5, 100)
    assert decide(group(), Elect(), {2: unfit, 3: fit}).group.master == 3
    assert decide(group(sss=ids(1, 2), elr=ids(3)), Elect(), {2: unfit, 3: fit}).group.master == 3
    assert decide(group(sss=ids(1, 2)), Elect(), {2: unfit, 3: fit}).group.master == 2
    assert decide(group(), Elect(), {2: unfit, 3: unfit}).group.master == 2
    doubtful = group(sss=ids(), doubt=ids(2, 3), master=None)
    assert decide(doubtful, Elect(), {2: unfit, 3: fit}).group.master == 2  # the longest log, whatever it says


def test_a_living_master_leaves_its_place_to_nobody_who_cannot_lead() -> None:
    unfit, fit, to_two = Heard(5, 200, cannot_lead=True), Heard(5, 100), Elect(asker=2, designate=True)
    refused = decide(group(), to_two, {1: fit, 2: unfit, 3: fit})
    assert (refused.code, refused.group) == (Code.CONTROLLER_ELECT_MASTER_FAILED, group())
    assert decide(group(), to_two, {2: unfit, 3: fit}).group.master == 2  # the operator's word, and no master lives
    assert decide(group(), Elect(asker=2, designate=True, unclean=True), {1: fit, 2: unfit, 3: fit}).group.master == 2


def test_eligible_replicas_are_taken_when_the_set_is_gone() -> None:
    assert elected(ask(group(sss=ids(1), elr=ids(3)), Elect(), 2, 3)) == (3, {3}, {1})
    assert elected(ask(group(sss=ids(1, 2), elr=ids(3), min_in_sync=3), Elect(), 2, 3)) == (2, {2}, {1, 3})


def test_without_a_candidate_there_is_no_master() -> None:
    state = group(sss=ids(1, 2))
    gone = ask(state, Elect(), 3)
    assert (gone.code, elected(gone)) == (Code.CONTROLLER_MASTER_NOT_AVAILABLE, (None, {1, 2}, set()))
    assert (gone.group.master_epoch, gone.group.in_sync_epoch) == (6, 9)
    again = ask(gone.group, Elect(), 3)
    assert (again.code, again.why) == (Code.CONTROLLER_MASTER_NOT_AVAILABLE, "")
    asked = ask(state, Elect(3), 3)
    assert (asked.code, asked.why) == (Code.CONTROLLER_ELECT_MASTER_FAILED, "")
    assert elected(ask(gone.group, Elect(2), 2, 3)) == (2, {2}, {1})


def test_the_designated_broker_or_none() -> None:
    assert elected(ask(group(), Elect(3, designate=True), 1, 2, 3)) == (3, {3}, {1, 2})
    assert elected(ask(group(sss=ids(1), elr=ids(3)), Elect(3, designate=True), 1, 2, 3)) == (3, {3}, {1})
    for state, alive in ((group(), (1, 2)), (group(sss=ids(1, 2)), (1, 2, 3))):
        answer = ask(state, Elect(3, designate=True), *alive)
        assert (answer.code, answer.group.master) == (Code.CONTROLLER_ELECT_MASTER_FAILED, 1)


def test_records_are_given_up_only_if_the_operator_allows_it() -> None:
    state = group(sss=ids(1), elr=ids())
    assert ask(state, Elect(3), 2, 3).code == Code.CONTROLLER_ELECT_MASTER_FAILED
    answer = ask(state, Elect(unclean=True), 2, 3)
    assert elected(answer) == (2, {2}, set())
    assert "lost" in answer.why
    assert elected(ask(state, Elect(3, designate=True, unclean=True), 2, 3)) == (3, {3}, set())
    assert elected(ask(group(sss=ids(1, 3)), Elect(unclean=True), 2, 3)) == (3, {3}, {1})


def test_a_machine_that_started_anew_is_no_candidate_before_it_registers() -> None:
    answer = decide(group(), Elect(), {1: Heard(5, 9, boot_id="new"), 2: Heard(5, 9, boot_id="new"), 3: Heard(5, 1)})
    assert answer.group.master == 3


def test_when_all_machines_started_anew_the_longest_log_of_all_is_taken() -> None:
    state = group(sss=ids(1, 2), elr=ids())
    for each in (1, 2):
        state = ask(state, Register(each, f"b{each}", boot_id="other", min_in_sync=2)).group
    assert (state.master, state.electable, state.doubtful) == (None, ids(), ids(1, 2))
    assert ask(state, Elect(1), 1, 3).code == Code.CONTROLLER_ELECT_MASTER_FAILED
    answer = decide(state, Elect(1), {1: Heard(5, 10), 2: Heard(5, 20), 3: Heard(5, 15)})
    assert (elected(answer), answer.group.doubtful) == ((2, {2}, set()), ids())
    assert elected(ask(state, Elect(1, designate=True), 1, 2)) == (1, {1}, set())


def test_another_member_may_have_kept_what_those_of_the_set_have_lost() -> None:
    state = group(sss=ids(), doubt=ids(1), master=None)
    best = decide(state, Elect(1), {1: Heard(3, 100), 2: Heard(5, 900), 3: Heard(4, 990)})
    assert elected(best) == (2, {2}, set())
    # The log of 2 may still grow: it has not heard that there is no master.
    rest = decide(state, Elect(1), {1: Heard(3, 100), 2: Heard(5, 900, known_epoch=4), 3: Heard(4, 990)})
    assert elected(rest) == (3, {3}, set())


def test_a_doubtful_replica_is_forgotten_when_the_set_goes_on_without_it() -> None:
    state = group(sss=ids(1), doubt=ids(3), elr=ids(2))
    assert ask(state, AlterSet(1, 5, ids(1, 2), 9), 1, 2).group.doubtful == ids()
    assert elected(ask(state, Elect(), 2, 3)) == (2, {2}, {1})
    assert ask(state, Elect(), 2, 3).group.doubtful == ids(3)


# -- 1011: members that do not come back -------------------------------------------------------------------------------


def test_cleaning_is_refused_for_the_living() -> None:
    for asked in (Clean(), Clean(ids(1)), Clean(ids(2, 3))):
        assert ask(group(), asked, 1, 2).code == Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert ask(EMPTY, Clean()).code == Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA


def test_a_cleaned_member_is_nowhere() -> None:
    state = ask(group(sss=ids(1, 2), elr=ids(3), min_in_sync=3), Clean(ids(3, 7)), 1, 2).group
    assert (set(state.members), state.in_sync, state.eligible, state.in_sync_epoch) == ({1, 2}, ids(1, 2), ids(), 9)
    state = ask(state, Clean(ids(1), living=True), 1, 2).group
    assert (set(state.members), state.master, state.master_epoch, state.in_sync) == ({2}, None, 6, ids(2))
    assert ask(state, Clean(ids(9)), 2).why == ""


def test_the_last_replicas_with_all_messages_are_not_cleaned_alone() -> None:
    for state in (group(sss=ids(1)), group(sss=ids(), master=None, doubt=ids(1))):
        assert ask(state, Clean(ids(1))).code == Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    everything = ask(group(sss=ids(1)), Clean(living=True), 1).group
    assert (dict(everything.members), everything.electable, everything.master_epoch) == ({}, ids(), 6)


# -- lives, and registers that were put back ---------------------------------------------------------------------------


def with_lives(state: Group, **fields: Any) -> Group:
    """Broker n has registered as "n0"."""
    members = {each: replace(member, life=f"{each}0") for each, member in state.members.items()}
    return replace(state, members=members, **fields)


def lives(broker_id: int, life: str, *before: str, **fields: Any) -> Register:
    fields = {"boot_id": "boot", "log_kept": LogKept.ON_DISK, "min_in_sync": 2, "known_epoch": 5, **fields}
    return Register(broker_id, f"b{broker_id}", life=life, lives_before=frozenset(before), **fields)


def test_an_epoch_ends_with_the_process_that_led_it() -> None:
    """Its store may have been copied to another machine: two processes with one id never lead in one epoch."""
    state = with_lives(group())
    answer = ask(state, lives(1, "11", "10"), 2, 3)
    assert (answer.group.master, answer.group.master_epoch, answer.group.in_sync) == (None, 6, ids(1, 2, 3))
    assert ask(answer.group, Elect(), 1, 2, 3).group.master_epoch == 7
    again = ask(state, lives(1, "10"), 1, 2, 3)
    assert (again.group.master, again.group.master_epoch, again.group.in_sync_epoch) == (1, 5, 10)


def test_an_older_copy_of_a_store_is_turned_away_while_its_broker_lives() -> None:
    answer = ask(with_lives(group()), lives(2, "2x", "2older"), 1, 2, 3)
    assert (answer.code, answer.group.in_sync) == (Code.CONTROLLER_BROKER_ID_INVALID, ids(1, 2, 3))


def test_an_older_copy_of_a_store_may_lack_records() -> None:
    state = with_lives(group())
    answer = ask(state, lives(2, "2x", "2older"), 1, 3)
    assert (answer.group.in_sync, answer.group.doubtful, answer.group.members[2].life) == (ids(1, 3), ids(2), "2x")
    assert ask(state, lives(2, "2x", "2older", "20"), 1, 3).group.in_sync == ids(1, 2, 3)


def test_a_proposal_from_before_another_life_of_a_member_is_refused() -> None:
    """It may stand on what the process before has reported."""
    state = with_lives(group(in_sync=ids(1, 3)))
    new = ask(state, lives(2, "21", "20"), 1, 3).group
    again = ask(new, lives(2, "21"), 1, 2, 3).group
    assert new.in_sync_epoch == again.in_sync_epoch == state.in_sync_epoch + 1
    stale = AlterSet(1, new.master_epoch, ids(1, 2, 3), state.in_sync_epoch)
    assert ask(new, stale, 1, 2, 3).code == Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_who_moves_a_member_does_not_make_its_word_forgotten() -> None:
    """`replicas move` tells no life: the copy of the store that comes next is found out all the same."""
    moved = ask(with_lives(group()), Register(2, "new", boot_id="boot", log_kept=LogKept.ON_DISK, min_in_sync=2)).group
    assert (moved.members[2].address, moved.members[2].life) == ("new", "20")
    assert ask(moved, lives(2, "2x", "2older"), 1, 3).group.doubtful == ids(2)


@pytest.mark.parametrize(("epoch", "master"), [(7, None), (7, (7, 1)), (6, (5, 1)), (5, (5, 2)), (5, (4, 3))])
def test_on_a_register_that_was_put_back_all_logs_are_compared(epoch: int, master: tuple[int, int] | None) -> None:
    """A member knows of a newer epoch, or of another master of this one or an older one."""
    state = with_lives(group(), masters={4: None, 5: 1})
    new = ask(state, lives(2, "20", known_epoch=epoch, known_master=master), 1, 2, 3).group
    assert (new.master, new.master_epoch, new.electable, new.doubtful) == (None, epoch + 1, ids(), ids(1, 2, 3))
    known = {each: Heard(epoch=each, end_offset=100, known_epoch=epoch + 1) for each in (1, 2, 3)}
    assert decide(new, Elect(), {each: known[each] for each in (1, 2)}).group.master is None
    assert decide(new, Elect(), {**known, 1: Heard(1, 100, known_epoch=epoch)}).group.master is None  # it may write
    assert decide(new, Elect(), {**known, 1: Heard()}).group.master is None  # it has not told its end
    chosen = decide(new, Elect(), known).group
    assert (chosen.master, chosen.master_epoch) == (3, epoch + 2)


def test_members_that_know_the_same_other_master_are_found_out_once() -> None:
    """Else each of them ends the epoch that the other was just told of, for ever."""
    state = with_lives(group(), masters={4: None, 5: 1})
    first = ask(state, lives(2, "20", known_master=(4, 2)), 1, 2, 3).group
    assert (first.master_epoch, first.put_back, dict(first.masters)) == (6, 6, {4: None, 5: 1, 6: None})
    second = ask(first, lives(3, "30", known_epoch=5, known_master=(4, 2)), 1, 2, 3).group
    assert second.master_epoch == 6
    assert decide(second, Elect(), {each: Heard(4, each, known_epoch=6) for each in (1, 2, 3)}).group.master == 3


@pytest.mark.parametrize(("known", "older", "again"), [((4, 2), ((3, 3), (2, 1)), 4), ((9, 2), ((8, 3), (3, 3)), 4)])
def test_a_log_of_an_epoch_that_was_given_again_is_not_chosen_over_one_of_before(
    known: tuple[int, int], older: tuple[tuple[int, int], ...], again: int
) -> None:
    """1 was alone on the older copy, and nobody acknowledged what it took there, in as many epochs as it likes."""
    state = with_lives(group(), masters={2: None, 3: 3, 4: None, 5: 1})
    asked = lives(2, "20", known_epoch=known[0], known_master=known, masters_before=frozenset(older))
    new = ask(state, asked, 1, 2, 3).group
    assert (new.given_again, new.put_back) == (again, max(5, known[0]) + 1)
    alive = {
        1: Heard(5, 900, known_epoch=new.master_epoch, known_master=(5, 1)),
        2: Heard(4, 200, known_epoch=new.master_epoch, known_master=known),
        3: Heard(4, 100, known_epoch=new.master_epoch, known_master=known),
    }
    assert decide(new, Elect(), alive).group.master == 2
    behind = {each: Heard(2, 100, known_epoch=new.master_epoch, known_master=known) for each in (2, 3)}
    once = {1: Heard(3, 900, known_epoch=new.master_epoch, known_master=(5, 1)), **behind}
    assert decide(new, Elect(), once).group.master == 1  # epoch 3 was given once
    assert not decide(new, Elect(), alive).group.contradicts(4, 2)  # nobody is asked about that any more
    alone = {
        1: Heard(5, 100, known_epoch=new.master_epoch, known_master=(5, 1)),
        2: Heard(known[0], 900, known_epoch=new.master_epoch, known_master=known),
        3: Heard(5, 200, known_epoch=new.master_epoch, known_master=(5, 1)),
    }
    assert decide(new, Elect(), alone).group.master == 3  # here 2 was alone, before the register was put back


@pytest.mark.parametrize("known", [(5, 1), (4, 2), (3, 3), None])
def test_what_a_member_knows_and_the_register_too_changes_nothing(known: tuple[int, int] | None) -> None:
    state = with_lives(group(), masters={4: 2, 5: 1})
    assert ask(state, lives(2, "20", known_master=known), 1, 2, 3).group.master == 1


def test_a_set_that_was_forgotten_shows_an_older_register_too() -> None:
    state = with_lives(group())
    assert ask(state, lives(1, "10", known_set_epoch=10), 1, 2, 3).group.doubtful == ids(1, 2, 3)
    assert ask(state, lives(1, "10", known_set_epoch=9), 1, 2, 3).group.master == 1
    assert ask(state, lives(1, "10", known_epoch=4, known_set_epoch=90), 1, 2, 3).group.master == 1


def test_the_masters_of_the_newest_epochs_are_kept() -> None:
    state = with_lives(group(master_epoch=100, masters={epoch: 1 for epoch in range(69, 101)}))
    masters = ask(state, Elect(), 2, 3).group.masters
    assert (min(masters), max(masters), masters[101], len(masters)) == (70, 101, 2, 32)


@pytest.mark.parametrize("known", [(70, None), (70, (70, 3)), (5, (5, 3))])
def test_a_newcomer_that_knows_epochs_of_another_register_is_refused(
    known: tuple[int, tuple[int, int] | None],
) -> None:
    """Accepted, it would stop all elections; started again, its log would be chosen over that of the group."""
    epoch, master = known
    state = group(masters={5: 1})
    for life in ("20", "21"):
        answer = ask(state, lives(2, life, "20", known_epoch=epoch, known_master=master), 1, 3)
        assert (answer.code, answer.group) == (Code.CONTROLLER_INVALID_REPLICAS, state)
        assert f"knows epoch {epoch}" in answer.remark
    assert ask(state, lives(2, "20", known_master=(4, 9)), 1, 3).group.members[2].life == "20"  # of the same group
    empty = group(sss=ids(), master=None, master_epoch=0)
    assert ask(empty, lives(2, "20", known_epoch=70, known_master=(70, 3))).code == SUCCESS


def test_nobody_is_elected_while_a_member_knows_more_than_the_register() -> None:
    alive = {2: Heard(epoch=5, end_offset=100, known_epoch=6), 3: Heard(epoch=5, end_offset=100, known_epoch=5)}
    answer = decide(group(), Elect(), alive)
    assert (answer.group.master, "[2] know of newer masters" in answer.remark) == (None, True)
    forced = decide(group(), Elect(unclean=True), alive)
    assert forced.group.master_epoch == 7
    nonsense = {2: Heard(epoch=5, end_offset=100, known_epoch=(1 << 30) + 1)}
    assert decide(group(), Elect(), nonsense).group.master == 2
