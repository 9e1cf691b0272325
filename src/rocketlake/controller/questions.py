"""What brokers and operators ask the controller about one group, and what it knows of living brokers.

Owns        the questions and their fields, as plain values.
Must not know   the answers (decision.py), the requests of the network that carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

__all__ = [
    "EPOCH_MAX",
    "Alive",
    "AlterSet",
    "ApplyId",
    "Clean",
    "Elect",
    "Heard",
    "LogKept",
    "NextId",
    "Question",
    "Register",
]

EPOCH_MAX: Final = 1 << 30
"""Brokers are not believed that they have heard of a later one: epochs are Java ints."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a living broker said of itself last."""

    epoch: int = -1
    """The epoch of the last record in its log."""
    end_offset: int = -1
    """Where its log ends."""
    priority: int = 2**31 - 1
    """Lower is preferred among replicas with equal logs."""
    boot_id: str = ""
    """The boot of its machine; empty if it does not tell."""
    known_epoch: int = -1
    """The newest master epoch that it has heard of; -1 if it does not tell (Java)."""
    known_master: tuple[int, int] | None = None
    """The newest epoch with a master that it has heard of, and that master; None: it does not tell."""
    cannot_lead: bool = False
    """Its store takes no messages now: it is chosen only if no other one can be."""


Alive: TypeAlias = Mapping[int, Heard]
"""The brokers of the group that live, by id; a broker that is not in it counts as dead."""


class LogKept(Enum):
    """What a broker can say of its log when it starts."""

    ON_DISK = "all that it reported to a master, or acknowledged, is in it: on disk then, or it stopped in order"
    IN_MEMORY = "the same, unless its machine started anew since: then the end may be missing"
    DAMAGED = "something is missing"


@dataclass(frozen=True, slots=True)
class AlterSet:
    """1001: the master proposes another set of replicas in step with it."""

    master: int
    master_epoch: int
    in_sync: frozenset[int]
    in_sync_epoch: int
    """Of the set that it is to replace."""


@dataclass(frozen=True, slots=True)
class Elect:
    """1002: a master is wanted."""

    asker: int | None = None
    """None: a controller asks, or an operator who names none. With `designate` the one that is to be master."""
    designate: bool = False
    """It or none."""
    unclean: bool = False
    """The operator allows a master that may lack acknowledged records, if there is no other."""


@dataclass(frozen=True, slots=True)
class Register:
    """1003: a broker with an id says where it serves, and what became of its log."""

    broker_id: int
    address: str
    host: str = ""
    """Where the registration comes from, if not from the host of the address."""
    ha_address: str = ""
    boot_id: str = ""
    log_kept: LogKept = LogKept.IN_MEMORY
    min_in_sync: int = 1
    """As a master it will acknowledge nothing while the recorded set is smaller."""
    life: str = ""
    """The word of this process, drawn at its start; empty if it does not tell (Java)."""
    lives_before: frozenset[str] = frozenset()
    """The words under which its store may be registered from before."""
    known_epoch: int = -1
    """The newest master epoch that it has heard of."""
    known_set_epoch: int = -1
    """The newest epoch of the set that it has heard of in that master epoch."""
    known_master: tuple[int, int] | None = None
    """The newest epoch with a master that it has heard of, and that master; None: none."""
    masters_before: frozenset[tuple[int, int]] = frozenset()
    """Older epochs that it has heard of, each with its master."""

    @property
    def masters(self) -> frozenset[tuple[int, int]]:
        """All epochs whose masters it knows, with these."""
        return self.masters_before if self.known_master is None else self.masters_before | {self.known_master}


@dataclass(frozen=True, slots=True)
class Clean:
    """1011: members that will not come back are to be forgotten."""

    broker_ids: frozenset[int] = frozenset()
    """None named: all."""
    living: bool = False
    """Even if they live."""


@dataclass(frozen=True, slots=True)
class NextId:
    """1012: which id is free?"""


@dataclass(frozen=True, slots=True)
class ApplyId:
    """1013: a broker takes an id."""

    cluster: str
    broker_id: int
    check_code: str
    """`address;milliseconds`: who brings the same text again is the same broker."""


Question: TypeAlias = AlterSet | Elect | Register | Clean | NextId | ApplyId
