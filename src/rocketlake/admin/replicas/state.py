"""What a controller's picture of a group means: which replicas are in step and why not, how far they are behind.

Owns        these judgments, in words.
Must not know   how a controller is asked (asked.py), the terminal.
"""

from __future__ import annotations

from rocketlake.admin.results import ReplicaGroup, ReplicaState
from rocketlake.admin.words import counted
from rocketlake.base.errors import NotThereError
from rocketlake.controller.decision import decide
from rocketlake.controller.group import Group, Member
from rocketlake.controller.questions import Clean, Heard
from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = [
    "end_of_master",
    "group_of",
    "known_member",
    "lag_of",
    "lives",
    "member_of",
    "no_failover",
    "refusal_of",
    "removal_refusal",
    "state_of",
]


def group_of(group: GroupView, growth: float = 0.0) -> ReplicaGroup:
    """The group as administrators see it. `growth`: bytes a second of the master's log; 0: not known."""
    return ReplicaGroup(
        name=group.broker_name,
        cluster=group.cluster,
        master=group.master,
        master_epoch=group.master_epoch,
        in_step=list(group.in_sync),
        set_epoch=group.in_sync_epoch,
        may_be_elected=list(group.eligible),
        needed=group.min_in_sync,
        sends_refused=refusal_of(group),
        no_failover=no_failover(group),
        members=[_member(group, each, growth) for each in group.members],
    )


def _member(group: GroupView, member: MemberView, growth: float) -> ReplicaState:
    lag_bytes, lag_seconds = lag_of(group, member, growth)
    return ReplicaState(
        broker_id=member.broker_id,
        address=member.address,
        is_master=member.broker_id == group.master,
        is_alive=lives(member),
        in_step=member.broker_id in group.in_sync,
        holds_all=holds_all(group, member.broker_id),
        epoch=member.epoch,
        log_end=member.max_offset,
        confirmed_end=member.confirm_offset,
        lag_bytes=lag_bytes,
        lag_seconds=lag_seconds,
        state=state_of(group, member),
    )


def lives(member: MemberView) -> bool:
    """True if the controller hears the broker."""
    return member.pulse == "ALIVE"


def holds_all(group: GroupView, broker_id: int) -> bool:
    """True if the broker has every acknowledged message."""
    return broker_id in (*group.in_sync, *group.eligible)


def member_of(group: GroupView, broker_id: int | None) -> MemberView | None:
    """The member with this id."""
    return next((each for each in group.members if each.broker_id == broker_id), None)


def known_member(group: GroupView, broker_id: int) -> MemberView:
    """The member with this id; NotThereError if there is none."""
    member = member_of(group, broker_id)
    if member is None:
        name = group.broker_name
        raise NotThereError(f"{name} has no broker {broker_id}", hint=f"`rocketlake replicas show {name}` lists them")
    return member


def end_of_master(group: GroupView) -> int:
    """Where the master's log ends, by its last heartbeat; without a master, the furthest end that is known."""
    ends = {each.broker_id: each.max_offset for each in group.members}
    return max(0, ends.get(group.master, -1) if group.master is not None else max(ends.values(), default=-1))


def refusal_of(group: GroupView) -> str:
    """Why sends to this group are refused now; "" if they are taken, as far as the controller knows."""
    master = member_of(group, group.master)
    if master is None:
        return "there is no master"
    if master.pulse == "REFUSED":
        return f"the master, broker {master.broker_id}: {_PULSES[master.pulse]}"
    if len(group.in_sync) < group.min_in_sync:
        return f"{len(group.in_sync)} of {group.min_in_sync} brokers that are needed are in step"
    return ""


def no_failover(group: GroupView) -> str:
    """Why no other broker would become the master now if this one were lost; "" if one would."""
    if group.trouble:
        return f"the controller cannot decide, its register does not answer: {group.trouble}"
    others = [each for each in group.members if each.broker_id != group.master and lives(each)]
    if any(holds_all(group, each.broker_id) for each in others):
        return ""
    return f"no {'other ' if group.master is not None else ''}living broker holds all that was acknowledged"


def removal_refusal(group: GroupView, broker_id: int) -> str:
    """Why a controller would not forget this broker now, by its own rule; "" if it would."""
    recorded = Group(
        members={each.broker_id: Member(address=each.address) for each in group.members},
        master=group.master,
        in_sync=frozenset(group.in_sync),
        eligible=frozenset(group.eligible),
        doubtful=frozenset(group.doubtful),
    )
    alive = {each.broker_id: Heard() for each in group.members if lives(each)}
    return decide(recorded, Clean(frozenset({broker_id})), alive).remark


def lag_of(group: GroupView, member: MemberView, growth: float) -> tuple[int | None, int | float | None]:
    """Bytes that the replica lacks, and seconds in which the master wrote so many. `growth`: bytes a second.

    None: not known, or it is the master.
    """
    if member.broker_id == group.master or member.max_offset < 0:
        return None, None
    lag = max(0, end_of_master(group) - member.max_offset)
    if lag == 0:
        return 0, 0
    return lag, round(lag / growth, 1) if growth else None


def state_of(group: GroupView, member: MemberView) -> str:
    """In step, or why it is not, in words."""
    if member.broker_id == group.master:
        return "in step" if member.pulse == "ALIVE" else _PULSES[member.pulse].format(_seconds(member.silent_ms))
    why = _obstacle(group, member)
    if member.broker_id in group.in_sync:
        return f"in step, but {why}" if why and member.pulse != "ALIVE" else "in step"
    kept = "; it holds all that was acknowledged" if member.broker_id in group.eligible else ""
    return f"not in step: {why or 'the master has not taken it in yet'}{kept}"


_PULSES = {
    "ALIVE": "",
    "CLOSED": "the link of its heartbeats has ended",
    "SILENT": "no heartbeat for {}",
    "UNHEARD": "it has sent no heartbeat to this controller",
    "REFUSED": "nothing listens at its address",
}


def _obstacle(group: GroupView, member: MemberView) -> str:
    if member.pulse != "ALIVE":
        return _PULSES.get(member.pulse, member.pulse).format(_seconds(member.silent_ms))
    if member.broker_id in group.doubtful:
        return "its machine started anew, the end of its log may be missing"
    if group.master is None:
        return "there is no master to follow"
    if member.ha_silent_ms is not None and member.ha_silent_ms > 1000:
        return f"it has heard nothing of its master for {_seconds(member.ha_silent_ms)}"
    lag = end_of_master(group) - member.max_offset
    return f"it lacks {counted(lag, 'byte')}" if member.max_offset >= 0 and lag > 0 else ""


def _seconds(milliseconds: int | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
