"""Needs: what a request must be allowed to do, read from its fields or its body.

Owns        the readers of resources, the refusal of a request that names none.
Must not know   which code needs what (the dispatch tables), who may do it (rocketlake.auth).

Every row of a dispatch table has needs. A request whose resource is missing, or whose body cannot be read, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rocketlake.auth.action import AccessRefused, Action, Kind, Need, on_cluster, on_group, on_topic
from rocketlake.net.request import Request
from rocketlake.protocol.request_code import request_name

__all__ = [
    "ANYBODY",
    "ANY_USER",
    "Needs",
    "cluster",
    "every",
    "group",
    "members",
    "needs",
    "optional_topic",
    "taking",
    "topic",
]

Reader: TypeAlias = Callable[[Request], Iterable[Need]]


@dataclass(frozen=True, slots=True)
class Needs:
    """What requests of one code must be allowed to do: all of it."""

    readers: tuple[Reader, ...]
    actions: frozenset[Action] = frozenset()
    """All actions that may be needed, for a look at the table."""
    takes: bool = False
    """The request takes away what others rely on: without users, the setting adminAccess decides (decision 0004)."""
    inner: bool = False
    """Members of a cluster ask it again and again: not noted in the audit."""
    signed: bool = True
    """False: nobody is asked who it is; the handler believes nothing of it."""

    def of(self, request: Request) -> Iterator[Need]:
        """The needs of this request. Raises AccessRefused, HeaderError, UsageError."""
        for reader in self.readers:
            yield from reader(request)

    @property
    def only_reads(self) -> bool:
        """True if the request changes nothing."""
        return bool(self.actions & {Action.GET, Action.LIST})

    def __and__(self, other: Needs) -> Needs:
        return replace(
            self,
            readers=self.readers + other.readers,
            actions=self.actions | other.actions,
            takes=self.takes or other.takes,
        )


ANY_USER: Final = Needs(())
"""Every known user may ask."""
ANYBODY: Final = Needs((), signed=False)
"""Nobody needs to be known."""


def needs(reader: Reader, *actions: Action) -> Needs:
    """By a reader of its own."""
    return Needs((reader,), frozenset(actions))


def taking(its: Needs) -> Needs:
    """The same for a request that takes away what others rely on."""
    return replace(its, takes=True)


def topic(*actions: Action, field: str = "topic") -> Needs:
    """One of the actions on the topic that a field names."""
    return needs(lambda request: (on_topic(_named(request, field), *actions),), *actions)


def optional_topic(*actions: Action, field: str = "topic") -> Needs:
    """The same; without the field nothing is needed."""

    def read(request: Request) -> Iterable[Need]:
        name = _field(request, field)
        return (on_topic(name, *actions),) if name else ()

    return needs(read, *actions)


def group(*actions: Action, field: str = "consumerGroup") -> Needs:
    """One of the actions on the group that a field names."""
    return needs(lambda request: (on_group(_named(request, field), *actions),), *actions)


def cluster(*actions: Action) -> Needs:
    """One of the actions on the cluster."""
    return needs(lambda request: (on_cluster(*actions),), *actions)


def members() -> Needs:
    """For what brokers, name servers and controllers tell each other: to change the cluster."""
    return replace(cluster(Action.UPDATE), inner=True)


def every(kind: Kind, action: Action) -> Needs:
    """An action on all resources of a kind."""
    return needs(lambda request: (Need(kind, "", (action,)),), action)


def _field(request: Request, name: str) -> str:
    fields = request.command.fields
    return (fields.get(name) or "").strip() if fields else ""


def _named(request: Request, field: str) -> str:
    name = _field(request, field)
    if not name:
        raise AccessRefused(
            f"{request_name(request.code)} names nothing in its field {field}",
            hint="name the topic, or the group, that the request is about",
        )
    return name
