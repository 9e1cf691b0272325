"""What is said about a replica: how far it is behind, why it is not in step, what is lost if it is made the master.

Owns        the words.
Must not know   commands, how a controller is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketlake.cli.table import amount

if TYPE_CHECKING:
    from rocketlake.protocol.bodies.replicas import GroupView, MemberView

__all__ = [
    "end_of_master",
    "holds_all",
    "lag_of",
    "lives",
    "losses",
    "member_of",
    "no_failover",
    "refusal_of",
    "removal_refusal",
    "state_of",
]


def lives(member: MemberView) -> bool:
    """True if the controller hears the broker."""
    return member.pulse == "ALIVE"


def holds_all(group: GroupView, broker_id: int) -> bool:
    """True if the broker has every acknowledged message."""
    return broker_id in (*group.in_sync, *group.eligible)


def member_of(group: GroupView, broker_id: int | None) -> MemberView | None:
    """The member with this id."""
    return next((each for each in group.members if each.broker_id == broker_id), None)


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
    from rocketlake.controller.decision import decide
    from rocketlake.controller.group import Group, Member
    from rocketlake.controller.questions import Clean, Heard

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
    return f"it lacks {amount(lag, 'byte')}" if member.max_offset >= 0 and lag > 0 else ""


def losses(group: GroupView, to: int | None, messages: int | None = None) -> list[str]:
    """What a forced election may lose, one line a candidate. `messages` that `to` lacks, if they could be counted."""
    known = max([each.confirm_offset for each in group.members], default=-1)
    lines = []
    master = member_of(group, group.master)
    if master is not None and lives(master):
        known = max(known, master.max_offset)
        if to is not None and not holds_all(group, to):
            lines.append(
                f"broker {group.master} is the master and lives: what it acknowledges until broker {to} has taken over "
                "is lost, too"
            )
    newest = max(each.epoch for each in group.members)
    for each in group.members:
        if to in (None, each.broker_id):
            lines.append(f"broker {each.broker_id} {_loss(group, each, known, newest, messages)}")
    return lines


def _loss(group: GroupView, member: MemberView, known: int, newest: int, messages: int | None) -> str:
    if holds_all(group, member.broker_id):
        if lives(member):
            return "holds all that was acknowledged: nothing is lost if it is chosen"
        return "holds all that was acknowledged, but it does not live: nothing is lost if it comes back"
    if not lives(member):
        return "does not live: it cannot be chosen"
    if member.max_offset < 0:
        return "has not said where its log ends: what it lacks is not known"
    lacking = max(0, known - member.max_offset)
    counted = f"{amount(messages, 'message')}, " if messages else ""
    least = f"at least {counted}{amount(lacking, 'byte')} of what was" if lacking or counted else "messages that were"
    older = f"; its log is of epoch {member.epoch}, not {newest}, so it may be more" if member.epoch < newest else ""
    return f"may lack {least} acknowledged: these are lost if it is chosen{older}"


def _seconds(milliseconds: int | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
