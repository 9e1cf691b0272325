"""What a controller answers, and how the state of the group changes: pure, no time, no network, no disk.

Owns        the checks and their order, the codes, the next state.
Must not know   who else decides at the same time (decider.py), how a broker is found to live.

Rule 1: the set of replicas and the master change together, in one state; epochs only grow.
Rule 2: `electable` replicas hold every acknowledged record. A change that would break this is no choice here.
The reasons: docs/internals/controller.md. Codes and their order: Java ReplicasInfoManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import TypeAlias

from msgspec.structs import replace

from rocketlake.controller.election import elect
from rocketlake.controller.group import Group, Member
from rocketlake.controller.questions import (
    EPOCH_MAX,
    Alive,
    AlterSet,
    ApplyId,
    Clean,
    Elect,
    LogKept,
    NextId,
    Question,
    Register,
)
from rocketlake.controller.sets import distrusted, with_set, without
from rocketlake.protocol.response_code import ResponseCode as Code

__all__ = ["MEMBERS_MAX", "Decision", "decide"]

MEMBERS_MAX = 64
"""Members of a group; an answer lists them all."""
_MASTERS_KEPT = 32

_Refusal: TypeAlias = tuple[Code, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one question."""

    group: Group
    """The state after it. The answer's fields are taken from here, also those of a refusal."""
    code: Code = Code.SUCCESS
    remark: str = ""
    why: str = ""
    """The reason for the history; empty: nothing changes."""


def decide(group: Group, question: Question, alive: Alive) -> Decision:
    """The decision about `question` in this state; `alive` are the brokers that this controller hears."""
    decision = _decide(group, question, alive)
    new = decision.group
    if new.master_epoch == group.master_epoch:
        return decision
    epochs = sorted(new.masters)[1 - _MASTERS_KEPT :]
    masters = {**{epoch: new.masters[epoch] for epoch in epochs}, new.master_epoch: new.master}
    return dataclass_replace(decision, group=replace(new, masters=masters))


def _decide(group: Group, question: Question, alive: Alive) -> Decision:
    if isinstance(question, AlterSet):
        return _alter_set(group, question, alive)
    if isinstance(question, Elect):
        return _elect(group, question, alive)
    if isinstance(question, Register):
        return _register(group, question, alive)
    if isinstance(question, Clean):
        return _clean(group, question, alive)
    if isinstance(question, ApplyId):
        return _apply_id(group, question)
    assert isinstance(question, NextId)
    return Decision(group)


# -- the set -----------------------------------------------------------------------------------------------------------


def _alter_set(group: Group, asked: AlterSet, alive: Alive) -> Decision:
    new, old = asked.in_sync, group.in_sync
    refusal = _asker_refusal(group, asked) or _set_refusal(group, asked, alive)
    if refusal is not None:
        return Decision(group, *refusal)
    changes = [f"{each} joins" for each in sorted(new - old)] + [f"{each} leaves" for each in sorted(old - new)]
    return Decision(with_set(group, new), why=f"the master {asked.master} has it: {', '.join(changes)}")


def _asker_refusal(group: Group, asked: AlterSet) -> _Refusal | None:
    """May this broker propose a set now?"""
    if not group.members:
        return Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "no broker of this group is registered"
    if asked.in_sync == group.in_sync:
        return Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "the new set is the recorded one"
    if asked.master != group.master:
        return Code.CONTROLLER_INVALID_MASTER, f"the master is {group.master}, not {asked.master}"
    if asked.master_epoch != group.master_epoch:
        remark = f"the epoch of the master is {group.master_epoch}, not {asked.master_epoch}"
        return Code.CONTROLLER_FENCED_MASTER_EPOCH, remark
    if asked.in_sync_epoch != group.in_sync_epoch:
        remark = f"the epoch of the set is {group.in_sync_epoch}, not {asked.in_sync_epoch}"
        return Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark
    return None


def _set_refusal(group: Group, asked: AlterSet, alive: Alive) -> _Refusal | None:
    """Is this a set for the group?

    Java asks that all of its members live. Here only those that join: a member of the old set that this controller does
    not hear would else stop the removal of another one, and all acknowledgements with it.
    """
    for joiner in sorted(asked.in_sync - group.in_sync):
        if joiner not in group.members:
            return Code.CONTROLLER_INVALID_REPLICAS, f"broker {joiner} is not registered in this group"
        if joiner not in alive:
            return Code.CONTROLLER_BROKER_NOT_ALIVE, f"broker {joiner} joins, but it is not alive"
    if asked.master not in asked.in_sync:
        return Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, f"the master {asked.master} is not in the new set"
    return None


# -- the master --------------------------------------------------------------------------------------------------------


def _elect(group: Group, asked: Elect, alive: Alive) -> Decision:
    if not group.members or (asked.asker is not None and asked.asker not in group.members):
        return Decision(group, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "the broker is not registered")
    choice = elect(group, asked, alive)
    if choice.master is None:
        if asked.asker is not None:
            return Decision(group, Code.CONTROLLER_ELECT_MASTER_FAILED, choice.why)
        if group.master is None:
            return Decision(group, Code.CONTROLLER_MASTER_NOT_AVAILABLE, choice.why)
        gone = replace(group, master=None, master_epoch=group.master_epoch + 1)
        return Decision(gone, Code.CONTROLLER_MASTER_NOT_AVAILABLE, choice.why, f"no master: {choice.why}")
    if choice.master == group.master:
        return Decision(group, Code.CONTROLLER_MASTER_STILL_EXIST, choice.why)
    chosen = replace(
        group,
        master=choice.master,
        master_epoch=_newest(group, alive) + 1,
        min_in_sync=group.members[choice.master].min_in_sync,
    )
    if not choice.holds_all:  # what it lacks is given up: it alone says what the log is
        chosen = replace(chosen, in_sync=frozenset(), eligible=frozenset(), doubtful=frozenset())
    return Decision(with_set(chosen, frozenset({choice.master})), why=choice.why)


# -- the members -------------------------------------------------------------------------------------------------------


def _apply_id(group: Group, asked: ApplyId) -> Decision:
    known = group.members.get(asked.broker_id)
    if known is not None and known.check_code == asked.check_code:
        return Decision(group)
    if known is not None:
        return Decision(
            group, Code.CONTROLLER_BROKER_ID_INVALID, f"the id {asked.broker_id} is taken: ask for the next"
        )
    # Java takes any free id. An id that was given before may come back with an old log, so it is never free here.
    if asked.broker_id != group.next_id or len(group.members) >= MEMBERS_MAX:
        remark = f"the next id of this group is {group.next_id}; it has {len(group.members)} of {MEMBERS_MAX} members"
        return Decision(group, Code.CONTROLLER_BROKER_ID_INVALID, remark)
    member = Member(address=asked.check_code.partition(";")[0], check_code=asked.check_code)
    new = replace(
        group,
        cluster=group.cluster or asked.cluster,
        next_id=asked.broker_id + 1,
        members={**group.members, asked.broker_id: member},
    )
    return Decision(new, why=f"{member.address} is member {asked.broker_id}")


def _newest(group: Group, alive: Alive) -> int:
    """The newest epoch of all: brokers may come from another register, or this one be an older copy."""
    heard = (max(each.epoch, each.known_epoch) for each in alive.values())
    return max((group.master_epoch, *(epoch for epoch in heard if epoch <= EPOCH_MAX)))


def _register(group: Group, asked: Register, alive: Alive) -> Decision:
    old = group.members.get(asked.broker_id)
    if old is None:
        return Decision(group, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, _no_member(group, asked.broker_id))
    if _is_copy(old, asked) and asked.broker_id in alive:
        remark = f"broker {asked.broker_id} lives at {old.address}; this store is an older copy of its store"
        return Decision(group, Code.CONTROLLER_BROKER_ID_INVALID, remark)
    if not old.life and asked.life and _knows_more(group, asked):
        return Decision(group, Code.CONTROLLER_INVALID_REPLICAS, _foreign(group, asked))
    member = replace(
        old,
        address=asked.address,
        host=asked.host,
        ha_address=asked.ha_address,
        boot_id=asked.boot_id,
        life=asked.life or old.life,  # `replicas move` has none to tell
        min_in_sync=max(1, asked.min_in_sync),
    )
    new, reasons = group, []
    if member != old:
        members = {**group.members, asked.broker_id: member}
        new = replace(new, members=members)
        reasons.append(f"broker {asked.broker_id} registers from {asked.address}")
    if _is_outdated(group, old, asked):
        new = distrusted(new, asked.known_epoch, asked.masters)
        reasons.append(f"the register is an older copy of what broker {asked.broker_id} knows")
    elif asked.broker_id == new.master:
        # It was away, and knows nothing of what it had proposed: that must not be recorded behind its back.
        new = replace(new, in_sync_epoch=group.in_sync_epoch + 1)
        reasons.append(f"the master {asked.broker_id} is back")
        if asked.life and asked.life != old.life:
            # Its store may run twice, on this machine and on one that is cut off: no two processes have one epoch.
            new = replace(new, master=None, master_epoch=group.master_epoch + 1)
            reasons.append("its epoch has ended with the process that led it")
    elif asked.life and asked.life != old.life:
        # The master hears of the new life before it can propose it: what it has counted was perhaps the old one's.
        new = replace(new, in_sync_epoch=group.in_sync_epoch + 1)
    if _may_lack_records(old, asked):
        if asked.broker_id in new.electable:
            new = without(new, frozenset({asked.broker_id}))
            new = replace(new, doubtful=new.doubtful | {asked.broker_id})
        # Also if it is in no set: a proposal on its way may add it, for what it had reported before.
        new = replace(new, in_sync_epoch=group.in_sync_epoch + 1)
        said = "its store is an older copy" if _is_copy(old, asked) else asked.log_kept.name
        reasons.append(f"the log of {asked.broker_id} may lack acknowledged records: {said}")
    if asked.broker_id == new.master and member.min_in_sync < new.min_in_sync:
        # The eligible replicas were kept under the other promise. Not before it is known that the master goes on: they
        # may be all that is left, and nothing was acknowledged under this promise. A higher one counts from the next
        # election on: this may be an old request, and the master has acknowledged under the lower one since.
        new = replace(new, min_in_sync=member.min_in_sync, eligible=frozenset(), doubtful=frozenset())
        reasons.append(f"as the master it needs {member.min_in_sync} replicas from now on")
    return Decision(new, why=", ".join(reasons))


def _no_member(group: Group, broker_id: int) -> str:
    if broker_id < group.next_id:
        return (
            f"broker {broker_id} was removed from this group, and no id is given twice. Cure: stop it; save its store"
            " if its messages are in no other member; then empty it: it gets a new id, and the master fills it"
        )
    return (
        f"no broker {broker_id} was ever a member of this group here: the register is a new one, or that of other"
        " controllers. Cure: see that controllerAddr names the controllers of its group; if their register is lost, run"
        " `rocketlake replicas rebuild` on each store of the group"
    )


def _may_lack_records(old: Member, asked: Register) -> bool:
    is_new_boot = bool(old.boot_id and asked.boot_id) and old.boot_id != asked.boot_id
    is_short = asked.log_kept is LogKept.DAMAGED or (is_new_boot and asked.log_kept is LogKept.IN_MEMORY)
    return is_short or _is_copy(old, asked)


def _is_copy(old: Member, asked: Register) -> bool:
    """True if the store was registered under a word that this copy of it does not know."""
    return bool(asked.life and old.life) and old.life not in {asked.life, *asked.lives_before}


def _is_outdated(group: Group, old: Member, asked: Register) -> bool:
    """True if this member was told by a register what this one has forgotten."""
    return bool(old.life) and asked.known_epoch <= EPOCH_MAX and _knows_more(group, asked)


def _knows_more(group: Group, asked: Register) -> bool:
    if not group.master_epoch:
        return False
    known, recorded = (asked.known_epoch, asked.known_set_epoch), (group.master_epoch, group.in_sync_epoch)
    return known > recorded or any(group.contradicts(*each) for each in asked.masters)


def _foreign(group: Group, asked: Register) -> str:
    """Of a newcomer: its log would pass for the newest of the group, and its word would stop every election."""
    epoch, master = asked.known_master or (asked.known_epoch, None)
    whose = "" if master is None else f" of broker {master}"
    return (
        f"the store of broker {asked.broker_id}, which is new here, knows epoch {epoch}{whose}, and this group is at"
        f" {group.master_epoch}: it belongs to another group, or this register was replaced or put back. Cure: stop"
        " that broker; if its messages are in no other member, save its store; then empty it, the master fills it anew"
    )


def _clean(group: Group, asked: Clean, alive: Alive) -> Decision:
    refusal = _clean_refusal(group, asked, alive)
    if refusal:
        return Decision(group, Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, refusal)
    gone = (asked.broker_ids or frozenset(group.members)) & group.members.keys()
    if not gone:
        return Decision(group)
    stay = {broker_id: member for broker_id, member in group.members.items() if broker_id not in gone}
    new = without(group, gone)
    new = replace(new, members=stay, doubtful=new.doubtful - gone)
    return Decision(new, why=f"removed by an operator: {', '.join(map(str, sorted(gone)))}")


def _clean_refusal(group: Group, asked: Clean, alive: Alive) -> str:
    if not asked.living:
        if not asked.broker_ids and group.master is not None:
            return f"the group has a master, {group.master}: name the brokers that are to be forgotten"
        if living := sorted(asked.broker_ids & alive.keys()):
            return f"broker {living[0]} is alive. Cure: stop it first, a running broker would come back"
    if not group.members:
        return "the group is not known"
    holders = group.electable | group.doubtful
    gone = asked.broker_ids or frozenset(group.members)
    if holders and holders <= gone and not group.members.keys() <= gone:
        # The next broker that asks would be the master, with whatever log it has.
        return (
            f"only {', '.join(map(str, sorted(holders)))} may hold all that was acknowledged. Cure: start it, and wait"
            " until another one is in step; if it is lost for good, make another one the master with"
            " `rocketlake replicas elect --force`"
        )
    return ""
