"""Who may be the master, and who of them is chosen.

Owns        the candidates, their order.
Must not know   the epochs and sets that follow (decision.py), how a broker is found to live.

Candidates are the living replicas that hold every acknowledged record: those of the set, else the eligible ones; those
that say that they cannot lead come behind both, and get no place that a living master would leave to them.
If there is none because their machines lost what was in memory, the longest log is taken, when all of them are back to
be compared: also that of another member, which may have kept what all of them have lost. A
replica that may lack records is taken otherwise only if the operator allows it.

After a register was put back a log may end in an epoch that was given twice, before and by the older copy. Its number
says nothing then. Each member of a set that acknowledges knows its master, so of the two the log counts whose masters
more members know. The other one is taken only if there is nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketlake.controller.group import Group
from rocketlake.controller.questions import EPOCH_MAX, Alive, Elect

__all__ = ["Choice", "elect"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The master, or None, and the reason."""

    master: int | None
    why: str
    holds_all: bool = True
    """False: it may lack acknowledged records."""


def elect(group: Group, asked: Elect, alive: Alive) -> Choice:
    """The master to be; the present one if it is alive and no other is designated."""
    here = {each for each in group.members if _lives(group, each, alive)}
    if not group.electable and not group.doubtful:  # never was there a master: nothing can be lost
        if asked.asker is None:
            return Choice(None, "no broker has asked to be the first master")
        return Choice(asked.asker, f"broker {asked.asker} is the first that asked")
    ahead = _ahead(group, alive)
    if ahead and not asked.unclean:
        return Choice(None, f"the register is an older copy: {sorted(ahead)} know of newer masters, and register again")
    if group.master in here and not (asked.designate and asked.asker != group.master):
        return Choice(group.master, f"the master {group.master} is alive")
    wanted = asked.asker if asked.designate else None
    if wanted is not None and wanted in here & group.electable:
        if group.master in here and alive[wanted].cannot_lead and not asked.unclean:
            return Choice(
                None, f"the store of broker {wanted} takes no messages, and the master {group.master} is alive"
            )
        return Choice(wanted, f"broker {wanted} is designated")
    fit = {each for each in here if not alive[each].cannot_lead}
    candidates = fit & group.in_sync or fit & group.eligible or here & group.in_sync or here & group.eligible
    if wanted is None and candidates:
        return _best(group, candidates, alive, f"{_said(group.master)}, it has all acknowledged messages")
    unsure = group.doubtful if not group.electable else frozenset()
    if unsure and all(_may_be_compared(group, each, alive) for each in unsure) and wanted in (None, *unsure):
        compared = {each for each in here if _may_be_compared(group, each, alive)}
        return _best(
            group, {wanted} if wanted else compared, alive, "all replicas lost what was in memory", holds_all=False
        )
    if asked.unclean and here and wanted in (None, *here):
        why = "the operator allows that messages are lost"
        return _best(group, {wanted} if wanted else here, alive, why, holds_all=False)
    if wanted is not None:
        return Choice(None, f"broker {wanted} is not alive, or may lack acknowledged messages")
    return Choice(
        None, f"wait for one of {sorted(group.electable)}" if group.electable else f"wait for all of {sorted(unsure)}"
    )


def _ahead(group: Group, alive: Alive) -> set[int]:
    """The members that know a newer epoch than the record. On that one nobody is elected (decision.py ends it)."""
    here = group.members.keys() & alive
    return {each for each in here if group.master_epoch < alive[each].known_epoch <= EPOCH_MAX}


def _lives(group: Group, broker_id: int, alive: Alive) -> bool:
    """True if the broker is heard, and not from a machine that started anew since it registered."""
    heard = alive.get(broker_id)
    if heard is None:
        return False
    boot_id = group.members[broker_id].boot_id
    return not boot_id or heard.boot_id in ("", boot_id)


def _may_be_compared(group: Group, broker_id: int, alive: Alive) -> bool:
    """True if the broker is there, and its log does not grow any more: it knows that there is no master."""
    if not _lives(group, broker_id, alive):
        return False
    heard = alive[broker_id]
    return heard.end_offset >= 0 and (heard.known_epoch < 0 or heard.known_epoch >= group.master_epoch)


def _outvoted(group: Group, here: Iterable[int], alive: Alive) -> set[int]:
    """Those whose logs end in an epoch that was given twice, where fewer members know of its master than of the other.

    Of a register that was put back both times have masters: members know those that it named before, or those of the
    older copy.
    """
    heard = {each: alive[each].known_master for each in here}
    known = {each: it for each, it in heard.items() if it and group.given_again <= it[0] < group.put_back}
    of_copy = {each for each, (epoch, master) in known.items() if group.masters.get(epoch) == master}
    of_before = known.keys() - of_copy
    fewer = of_copy if len(of_copy) <= len(of_before) else of_before
    return {each for each in fewer if group.given_again <= alive[each].epoch < group.put_back}


def _best(group: Group, candidates: Iterable[int], alive: Alive, why: str, *, holds_all: bool = True) -> Choice:
    """The newest epoch, then the longest log, then the lowest priority, then the lowest id."""
    candidates = set(candidates)
    outvoted = _outvoted(group, candidates, alive)

    def rank(broker_id: int) -> tuple[bool, int, int, int, int]:
        heard = alive[broker_id]
        return broker_id in outvoted, -heard.epoch, -heard.end_offset, heard.priority, broker_id

    best = min(candidates, key=rank)
    heard = alive[best]
    return Choice(best, f"broker {best} (epoch {heard.epoch}, end {heard.end_offset}): {why}", holds_all)


def _said(master: int | None) -> str:
    return "there was no master" if master is None else f"{master} is gone"
