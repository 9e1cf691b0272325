"""The producers that are connected now, by group.

Owns        members of each producer group, which of them is asked about a transaction, the clients by their ids.
Must not know   requests, consumers, transactions.

Invariant: a group without members is not kept, nor is a client that is in no group.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.broker.clients.member import SILENT_SECONDS_MAX, Member
from rocketlake.net.request import Asker

__all__ = ["ProducerTable"]

_TRIES = 3
"""Members tried to find one that reads what it is sent, as in RocketMQ's ProducerManager."""


class ProducerTable:
    """Connected producers of all groups."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[Asker, Member]] = {}
        self._clients: dict[str, dict[Asker, set[str]]] = {}
        """By client id: its askers, the newest last, and the groups in which each of them is."""
        self._turn = 0

    def register(self, group: str, asker: Asker, client_id: str, language: str = "JAVA", version: int = 0) -> bool:
        """Note a heartbeat; True if the client is new in the group."""
        members = self._groups.setdefault(group, {})
        before = members.get(asker)
        if before is not None and before.client_id != client_id:
            self._forget_client(before, group)
        members[asker] = Member(asker, client_id, language, version, self._clock.monotonic(), self._clock.now_ms())
        self._clients.setdefault(client_id, {}).setdefault(asker, set()).add(group)
        return before is None

    def unregister(self, group: str, asker: Asker) -> bool:
        """Remove one member; True if it was there."""
        members = self._groups.get(group)
        if members is None or asker not in members:
            return False
        self._forget_client(members.pop(asker), group)
        if not members:
            del self._groups[group]
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
        for group in [group for group, members in self._groups.items() if asker in members]:
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
