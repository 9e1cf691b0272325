"""What a controller has said of the group: its master and the set in step, each with its epoch.

Owns        the value, and which of two is newer.
Must not know   requests and answers (calls.py), what a broker does with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["NOTHING_KNOWN", "GroupView", "Known"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One state of the group."""

    master_id: int | None = None
    """None: there is no master now, or it is not alive."""
    master_address: str = ""
    """`host:port` of the master's listener."""
    master_epoch: int = 0
    members: frozenset[int] = frozenset()
    """The recorded set of replicas in step."""
    set_epoch: int = 0
    master_mark: str = ""
    """The mark of the process that is the master; empty if the controller does not tell (Apache's)."""
    asker_mark: str = ""
    """The mark of the process that is registered under the id of the asker, NO_LIFE of one without a life; empty if it
    was not told (Apache's controller)."""
    member_marks: Mapping[int, str] = field(default_factory=dict)
    """The marks of all members' processes, by broker id; empty if the controller does not tell them (Apache's)."""


class Known(NamedTuple):
    """The newest state of the group that a broker has heard of; -1: of none."""

    epoch: int = -1
    set_epoch: int = -1


NOTHING_KNOWN = Known()
