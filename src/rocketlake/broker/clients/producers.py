"""The producers that are connected now, by group.

Owns        members of each producer group, which of them is asked about a transaction, the clients by their ids.
Must not know   requests, consumers, transactions.

Invariant: a group without members is not kept, nor is a client that is in no group.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.broker.clients.member import SILENT_SECONDS_MAX, Member, Memberships
from rocketlake.net.request import Asker

__all__ = ["ProducerTable"]

_TRIES = 3
"""Members tried to find one that reads what it is sent, as in RocketMQ's ProducerManager."""


class ProducerTable:
    """Connected producers of all groups."""

    def __init__(self, clock: Clock, places: Memberships | None = None) -> None:
        self._clock = clock
        self._places = places or Memberships()
        self._groups: dict[str, dict[Asker, Member]] = {}
        self._groups_of: dict[Asker, set[str]] = {}
        self._clients: dict[str, dict[Asker, set[str]]] = {}
        """By client id: its askers, the newest last, and the groups in which each of them is."""
        self._turn = 0

    def register(self, group: str, asker: Asker, client_id: str, language: str = "JAVA", version: int = 0) -> bool:
        """Note a heartbeat; True if the client is new in the group. Raises UsageError: there is no place for it."""
        before = self._groups.get(group, {}).get(asker)
        owner = self._places.take(asker) if before is None else before.owner
        members = self._groups.setdefault(group, {})
        self._groups_of.setdefault(asker, set()).add(group)
        if before is not None and before.client_id != client_id:
            self._forget_client(before, group)
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        members[asker] = Member(asker, client_id, language, version, now, now_ms, owner=owner)
        self._clients.setdefault(client_id, {}).setdefault(asker, set()).add(group)
        return before is None

    def unregister(self, group: str, asker: Asker) -> bool:
        """Remove one member; True if it was there."""
        members = self._groups.get(group)
        if members is None or asker not in members:
            return False
        member = members.pop(asker)
        self._forget_client(member, group)
        self._places.give(member)
        if not members:
            del self._groups[group]
        groups = self._groups_of[asker]
        groups.discard(group)
        if not groups:
            del self._groups_of[asker]
        return True

    def _forget_client(self, member: Member, group: str) -> None:
        askers = self._clients[member.client_id]
        askers[member.asker].discard(group)
        if not askers[member.asker]:
            del askers[member.asker]
        if not askers:
            del self._clients[member.client_id]

    def asker_gone(self, asker: Asker) -> None:
        """The asker is gone: remove its client from every group."""
        for group in sorted(self._groups_of.get(asker, ())):
            self.unregister(group, asker)

    def expire(self) -> list[Asker]:
        """Remove members that were silent for 120 s. Returns their askers, which the caller closes."""
        oldest = self._clock.monotonic() - SILENT_SECONDS_MAX
        gone: list[Asker] = []
        for group, members in list(self._groups.items()):
            for asker in [asker for asker, member in members.items() if member.heard < oldest]:
                self.unregister(group, asker)
                gone.append(asker)
        return gone

    def members(self, group: str) -> list[Member]:
        """Connected members of the group, in order of arrival."""
        return list(self._groups.get(group, {}).values())

    def client(self, client_id: str) -> Member | None:
        """The connected client of this id, by its newest connection; None: it has sent no heartbeat here."""
        askers = self._clients.get(client_id)
        if not askers:
            return None
        asker, groups = next(reversed(askers.items()))
        return self._groups[next(iter(groups))][asker]

    def any(self, group: str) -> Member | None:
        """A connected member that reads what it is sent, another one at each call."""
        members = list(self._groups.get(group, {}).values())
        for _ in members[:_TRIES]:
            self._turn += 1
            member = members[self._turn % len(members)]
            if member.asker.writable:
                return member
        return None

    def groups(self) -> list[str]:
        """Names of all groups."""
        return list(self._groups)
