"""Policies: what a user may do on which resources, and which entry of them decides.

Owns        the texts of resources, the order of entries, the merge of new entries into known ones.
Must not know   users, requests.

The rule (docs/internals/access_control.md): of the entries that fit resource, action and source address, the most
special decides: a name before a prefix, a longer prefix before a shorter one, a prefix before all of a kind, a kind
before `*`. Between two alike, Deny decides. Entries of the default policy are asked only if no other fits. None fits:
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rocketlake.auth.action import Action, Kind, Need
from rocketlake.base.errors import UsageError

__all__ = ["Acl", "Decision", "Entry", "PolicyType", "Resource", "Verdict"]


class Decision(Enum):
    """Values of an entry's decision."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Values of policyType."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or a pattern of some: `*`, `Topic:*`, `Topic:order*`, `Topic:orders`."""

    kind: Kind
    name: str = ""
    is_prefix: bool = False
    """True: of every name that starts with `name`; the pattern of all of a kind is the empty prefix."""

    @staticmethod
    def parse(text: str) -> Resource:
        """From the text of a policy. Raises UsageError."""
        if text == "*":
            return Resource(Kind.ANY, is_prefix=True)
        kind_text, colon, name = text.partition(":")
        kind = next((kind for kind in Kind if kind.value.lower() == kind_text.lower() and kind is not Kind.ANY), None)
        if kind is None or not colon or not name or "*" in name[:-1] or not name.isprintable() or len(name) > 255:
            raise UsageError(
                f"{text[:80]!r} is no resource",
                hint="write *, Topic:NAME, Topic:PREFIX* or Topic:*; in place of Topic: Group, Cluster or Namespace",
            )
        return Resource(kind, name.removesuffix("*"), name.endswith("*"))

    def __str__(self) -> str:
        return "*" if self.kind is Kind.ANY else f"{self.kind.value}:{self.name}{'*' if self.is_prefix else ''}"

    def covers(self, kind: Kind, name: str) -> bool:
        """True if the resource, by its name, is one of these. `name` "": all of the kind must be."""
        if self.kind is Kind.ANY:
            return True
        if self.kind is not kind:
            return False
        return name.startswith(self.name) if self.is_prefix else name == self.name != ""

    @property
    def special(self) -> tuple[bool, bool, int]:
        """Sorts the most special one last."""
        return self.kind is not Kind.ANY, not self.is_prefix, len(self.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is allowed or denied on one resource. `sources`: addresses and networks; empty: from everywhere."""

    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.actions:
            raise UsageError(f"the entry for {self.resource} names no action", hint="name actions, or All")
        for source in self.sources:
            _network(source)

    def fits(self, need: Need, action: Action, host: str) -> bool:
        """True if the entry speaks about this action on the resource, from this host."""
        return (
            (action in self.actions or Action.ALL in self.actions)
            and self.resource.covers(need.kind, need.name)
            and (not self.sources or any(_holds(source, host) for source in self.sources))
        )

    def __str__(self) -> str:
        actions = ",".join(sorted(action.value for action in self.actions))
        sources = f" from {','.join(self.sources)}" if self.sources else ""
        return f"{self.decision.value} {actions} on {self.resource}{sources}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, and why: the entry, or a text."""

    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Acl:
    """All policies of one user: entries by policy type, at most one for each resource."""

    entries: tuple[tuple[PolicyType, Entry], ...] = ()

    def verdict(self, need: Need, host: str) -> Verdict:
        """Is one of the needed actions allowed?"""
        verdicts = [self._verdict(need, action, host) for action in need.actions]
        return next((verdict for verdict in verdicts if verdict.allowed), verdicts[-1])

    def _verdict(self, need: Need, action: Action, host: str) -> Verdict:
        for wanted in (PolicyType.CUSTOM, PolicyType.DEFAULT):
            fitting = [entry for kind, entry in self.entries if kind is wanted and entry.fits(need, action, host)]
            if fitting:
                decides = max(fitting, key=lambda entry: (entry.resource.special, entry.decision is Decision.DENY))
                return Verdict(decides.decision is Decision.ALLOW, str(decides))
        return Verdict(False, f"no policy allows {need}")

    def merged(self, entries: Iterable[tuple[PolicyType, Entry]]) -> Acl:
        """With these entries in place of those for the same resources."""
        merged = {(kind, entry.resource): entry for kind, entry in self.entries}
        merged |= {(kind, entry.resource): entry for kind, entry in entries}
        return Acl(tuple((kind, entry) for (kind, _), entry in merged.items()))

    def without(self, kind: PolicyType, resource: Resource) -> Acl:
        """Without the entry for this resource."""
        return Acl(tuple(pair for pair in self.entries if (pair[0], pair[1].resource) != (kind, resource)))

    def of_type(self, kind: PolicyType) -> Iterator[Entry]:
        """The entries of a policy type."""
        return (entry for its, entry in self.entries if its is kind)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"{text[:60]!r} is no source address", hint="give an IP address, or a network such as 10.1.0.0/16"
        ) from None


def _holds(source: str, host: str) -> bool:
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address) in _network(source)
