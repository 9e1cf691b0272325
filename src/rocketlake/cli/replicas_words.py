"""What a forced election may lose, for the question before it.

Owns        the words.
Must not know   commands, how a controller is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketlake.cli.table import amount

if TYPE_CHECKING:
    from rocketlake.admin.results import ReplicaGroup, ReplicaState

__all__ = ["losses"]


def losses(group: ReplicaGroup, to: int | None, messages: int | None = None) -> list[str]:
    """What a forced election may lose, one line a candidate. `messages` that `to` lacks, if they could be counted."""
    known = max([each.confirmed_end for each in group.members], default=-1)
    lines = []
    master = group.member(group.master)
    if master is not None and master.is_alive:
        known = max(known, master.log_end)
        chosen = group.member(to)
        if to is not None and not (chosen is not None and chosen.holds_all):
            lines.append(
                f"broker {group.master} is the master and lives: what it acknowledges until broker {to} has taken over "
                "is lost, too"
            )
    newest = max(each.epoch for each in group.members)
    for each in group.members:
        if to in (None, each.broker_id):
            lines.append(f"broker {each.broker_id} {_loss(each, known, newest, messages)}")
    return lines


def _loss(member: ReplicaState, known: int, newest: int, messages: int | None) -> str:
    if member.holds_all:
        if member.is_alive:
            return "holds all that was acknowledged: nothing is lost if it is chosen"
        return "holds all that was acknowledged, but it does not live: nothing is lost if it comes back"
    if not member.is_alive:
        return "does not live: it cannot be chosen"
    if member.log_end < 0:
        return "has not said where its log ends: what it lacks is not known"
    lacking = max(0, known - member.log_end)
    counted = f"{amount(messages, 'message')}, " if messages else ""
    least = f"at least {counted}{amount(lacking, 'byte')} of what was" if lacking or counted else "messages that were"
    older = f"; its log is of epoch {member.epoch}, not {newest}, so it may be more" if member.epoch < newest else ""
    return f"may lack {least} acknowledged: these are lost if it is chosen{older}"
