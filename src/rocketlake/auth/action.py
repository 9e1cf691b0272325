"""What a request asks to do: an action on a topic, a group or the cluster.

Owns        the names of actions and of kinds of resources, as ACL 2.0 has them.
Must not know   which request needs which action (the dispatch tables), who may do it (policy.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketlake.base.errors import RocketLakeError

__all__ = ["RETRY_PREFIX", "AccessRefused", "Action", "Kind", "Need", "on_cluster", "on_group", "on_topic"]

RETRY_PREFIX: Final = "%RETRY%"


class AccessRefused(RocketLakeError):
    """A rule does not let this asker do this. The dispatcher answers NO_PERMISSION."""


class Action(Enum):
    """Actions; the values are the texts of policies."""

    ALL = "All"
    """In policies only: every other one."""
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Kind(Enum):
    """Kinds of resources; the values are the texts of policies."""

    ANY = "Any"
    """In policies only: every other one, written `*`."""
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


@dataclass(frozen=True, slots=True)
class Need:
    """One of these actions must be allowed on this resource. `name` "" stands for every resource of the kind."""

    kind: Kind
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{' or '.join(action.value for action in self.actions)} on {self.kind.value}:{self.name or '*'}"


def on_topic(name: str, *actions: Action) -> Need:
    """On a topic; a retry topic belongs to its group: who may subscribe with the group may use it."""
    if name.startswith(RETRY_PREFIX):
        return Need(Kind.GROUP, name[len(RETRY_PREFIX) :], (Action.SUB,))
    return Need(Kind.TOPIC, name, actions)


def on_group(name: str, *actions: Action) -> Need:
    """On a consumer group, given by its name or that of its retry topic."""
    return Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), actions)


def on_cluster(*actions: Action) -> Need:
    """On the cluster of the server that is asked; the gate puts its name in."""
    return Need(Kind.CLUSTER, "", actions)
