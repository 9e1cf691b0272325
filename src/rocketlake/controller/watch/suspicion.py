"""Must another master be looked for?

Owns        the rule: which silence of which broker is enough.
Must not know   how a master is chosen (controller/election.py), tasks, the network.

A wrong suspicion costs a switch, never a message. So a closed link is looked into at once, and a silence needs the word
of a replica: as long as one of those that may follow hears its master, the master is cut off from this controller only.
Java's replicas do not say whether they hear it; without any word the silence alone is enough.

A master that its replicas do not hear is cut off from them, or they are slow to connect, and have to begin anew with
each change of the master. So one that comes behind masters that had too few replicas gets more time.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketlake.controller.group import Group
from rocketlake.controller.watch.liveness import BrokerKey, Liveness, Pulse

__all__ = ["CALM", "Action", "Verdict", "counts_as_alive", "heirs", "judge", "serves"]

ACK_STALL_MS: Final = 2000
"""A master that has waited for its replicas for so long, and that they do not hear any more, is cut off from them."""
_DOUBLED_MAX: Final = 2
"""So often that time is doubled."""


class Action(Enum):
    """What is to be done about a group."""

    NOTHING = "nothing"
    PROBE = "ask the master's machine whether it still listens"
    ELECT = "choose another master"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An action, and the reason for it."""

    action: Action
    why: str = ""
    deposes: bool = False
    """The master lives, and another one is wanted all the same."""


CALM: Final = Verdict(Action.NOTHING)


def judge(name: str, group: Group, liveness: Liveness, *, unclean: bool = False, in_vain: int = 0) -> Verdict:
    """What to do about the group `name` now. `unclean`: any living replica may follow.

    `in_vain`: so many masters before this one had too few replicas in step.
    """
    if serves(name, group, liveness, in_vain):
        return CALM  # the usual case, ten times a second for each group
    here = heirs(name, group, liveness, unclean=unclean)
    if not group.master_epoch or not here:
        return CALM  # the first broker that asks is the master; while nobody can follow, a master may come back
    if group.master is None:
        return Verdict(Action.ELECT, "there is no master")
    return _judge_master(name, group, group.master, here, liveness)


def serves(name: str, group: Group, liveness: Liveness, in_vain: int = 0) -> bool:
    """True if there is a master that lives, and its messages do not wait for its replicas for long."""
    broker = None if group.master is None else liveness.last(key := BrokerKey(name, group.master))
    if broker is None or liveness.pulse(key) is not Pulse.ALIVE:
        return False
    return broker.beat.ack_stalled_ms < ACK_STALL_MS << min(in_vain, _DOUBLED_MAX)


def counts_as_alive(name: str, group: Group, liveness: Liveness) -> bool:
    """True if brokers are to go on with the recorded master, as far as this controller knows."""
    if group.master is None:
        return False
    here = heirs(name, group, liveness, unclean=False)
    verdict = _judge_master(name, group, group.master, here, liveness)
    return verdict.action is not Action.ELECT or verdict.deposes


def _judge_master(name: str, group: Group, master: int, here: Set[int], liveness: Liveness) -> Verdict:
    key = BrokerKey(name, master)
    pulse = liveness.pulse(key)
    if pulse is Pulse.ALIVE:
        return _cut_off(name, group, liveness)
    if pulse is Pulse.REFUSED:
        return Verdict(Action.ELECT, f"nothing listens at the address of the master {master}")
    if pulse is Pulse.CLOSED:
        return Verdict(Action.PROBE, f"the link of the master {master} has ended")
    if pulse is Pulse.UNHEARD and liveness.waits_for_first(key):
        return Verdict(Action.PROBE, f"the master {master} has not been heard yet")
    hearing = [each for each in sorted(here) if _hears_master(BrokerKey(name, each), liveness)]
    if hearing:
        return Verdict(Action.NOTHING, f"the master {master} is silent, but {hearing} hear it")
    return Verdict(Action.ELECT, f"the master {master} has been silent for {liveness.age(key):.1f} s")


def heirs(name: str, group: Group, liveness: Liveness, *, unclean: bool) -> set[int]:
    """The living replicas that may follow the master (election.py decides)."""
    here = set(liveness.alive(name, group.members.keys())) - {group.master}
    if unclean:
        return here
    if not group.electable and group.doubtful:
        return here if group.doubtful <= here else set()
    return here & group.electable


def _hears_master(key: BrokerKey, liveness: Liveness) -> bool:
    broker = liveness.last(key)
    if broker is None or broker.beat.ha_silent_ms is None:
        return False
    return broker.beat.ha_silent_ms / 1000 + liveness.age(key) < liveness.limit_seconds / 2


def _ha_silent_ms(key: BrokerKey, liveness: Liveness) -> int:
    broker = liveness.last(key)
    return (broker.beat.ha_silent_ms or 0) if broker is not None else 0


def _cut_off(name: str, group: Group, liveness: Liveness) -> Verdict:
    """Of a living master that waits for its replicas: is it that enough living ones do not hear it?"""
    assert group.master is not None
    alive = liveness.alive(name, group.members.keys() - {group.master})
    # Less than the wait: one whose reports do not arrive hears its master until that hangs up, a second later.
    deaf_ms = min(ACK_STALL_MS, 1000 * liveness.limit_seconds)
    deaf = {each for each in alive if _ha_silent_ms(BrokerKey(name, each), liveness) >= deaf_ms}
    if len(deaf) < group.min_in_sync or not group.electable & deaf:
        return CALM
    why = f"the master {group.master} waits for its replicas, and {sorted(deaf)}, which are alive, do not hear it"
    return Verdict(Action.ELECT, why, deposes=True)
