"""The consumers that are connected now, by group.

Owns        members of each consumer group, the subscriptions of the group, which members are told of a change.
Must not know   requests, offsets, group settings, how a notice is sent.

Invariant: a group without members is not kept.
Rule: a new or lost member and a new or dropped topic are changes; a newer version of a known subscription is not
(RocketMQ's ConsumerManager). The latest heartbeat of any member sets the group's subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.broker.clients.disagreement import Disagreements
from rocketlake.broker.clients.member import SILENT_SECONDS_MAX, Member, Memberships
from rocketlake.model.subscription import Subscription
from rocketlake.net.request import Asker

__all__ = ["BROADCASTING", "ChangeNotice", "ConsumerGroup", "ConsumerTable"]

BROADCASTING = "BROADCASTING"


class ChangeNotice(Protocol):
    """Tells the members of a group that its membership changed (push.py)."""

    def consumers_changed(self, group: str, askers: Sequence[Asker]) -> None:
        """Tell the clients behind `askers`."""
        ...


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group with at least one connected member."""

    name: str
    consume_type: str = ""
    message_model: str = ""
    from_where: str = ""
    notify: bool = True
    fingerprint: int = 0
    """The fingerprint of the last short heartbeat (v2); 0 before the first."""
    members: dict[Asker, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        """Client ids of the members, each once, in order of arrival."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def set_subscriptions(self, subscriptions: Iterable[Subscription]) -> bool:
        """Take the newest version of each subscription; True if a topic came or went."""
        named = {subscription.topic: subscription for subscription in subscriptions}
        changed = named.keys() != self.subscriptions.keys()
        for topic, subscription in named.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.version > known.version:
                self.subscriptions[topic] = subscription
        for topic in self.subscriptions.keys() - named.keys():
            del self.subscriptions[topic]
        return changed


class ConsumerTable:
    """Connected consumers of all groups."""

    def __init__(self, notice: ChangeNotice, clock: Clock, places: Memberships | None = None) -> None:
        self._notice = notice
        self._places = places or Memberships()
        self._clock = clock
        self._disagreements = Disagreements(clock)
        self._groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Asker, set[str]] = {}

    def register(
        self,
        group: str,
        asker: Asker,
        client_id: str,
        consume_type: str,
        model: str,
        from_where: str,
        subscriptions: Iterable[Subscription] | None,
        language: str = "JAVA",
        version: int = 0,
        *,
        notify: bool = True,
    ) -> bool:
        """Note a heartbeat; True (and the members are told) if the group changed.

        `subscriptions=None`: a short heartbeat, which only says that the client is alive. Raises UsageError: there is
        no place for one more member.
        """
        entry = self._groups.get(group)
        known = None if entry is None else entry.members.get(asker)
        owner = self._places.take(asker) if known is None else known.owner
        if entry is None:
            entry = self._groups[group] = ConsumerGroup(group)
        entry.consume_type, entry.message_model, entry.from_where = consume_type, model, from_where
        entry.notify = notify
        changed = known is None
        now = self._clock.monotonic()
        member = Member(asker, client_id, language, version, now, self._clock.now_ms(), since=now, owner=owner)
        if known is not None:
            member.since, member.wants = known.since, known.wants
        entry.members[asker] = member
        self._groups_of.setdefault(asker, set()).add(group)
        if subscriptions is not None:
            member.wants = {subscription.topic: subscription for subscription in subscriptions}
            changed = entry.set_subscriptions(member.wants.values()) or changed
        self._disagreements.look(group, entry.members.values(), member)
        if changed:
            self._tell(entry)
        return changed

    def take_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Keep the fingerprint of a version 2 heartbeat; True if the broker asks for a full heartbeat.

        It asks when the fingerprint has changed, and when it does not know the group's subscriptions: after a restart
        of the broker a client may go on with short heartbeats. RocketMQ does not ask then, and refuses the group's
        pulls until the client sends a full heartbeat for another reason.
        """
        entry = self._groups.get(group)
        if entry is None:
            return False
        wanted = entry.fingerprint not in (0, fingerprint) or not entry.subscriptions
        entry.fingerprint = fingerprint
        return wanted

    def unregister(self, group: str, asker: Asker) -> bool:
        """Remove one member; True if it was there."""
        entry = self._groups.get(group)
        if entry is None or asker not in entry.members:
            return False
        self._drop(entry, asker)
        return True

    def asker_gone(self, asker: Asker) -> None:
        """The asker is gone: remove its client from every group."""
        for group in sorted(self._groups_of.get(asker, ())):
            self._drop(self._groups[group], asker)

    def expire(self) -> list[Asker]:
        """Remove members that were silent for 120 s. Returns their askers, which the caller closes."""
        oldest = self._clock.monotonic() - SILENT_SECONDS_MAX
        gone: list[Asker] = []
        for entry in list(self._groups.values()):
            for asker in [asker for asker, member in entry.members.items() if member.heard < oldest]:
                self._drop(entry, asker)
                gone.append(asker)
        return gone

    def find(self, group: str) -> ConsumerGroup | None:
        """The group, if a member of it is connected."""
        return self._groups.get(group)

    def members(self, group: str) -> list[str]:
        """Client ids of the connected members."""
        entry = self._groups.get(group)
        return [] if entry is None else entry.client_ids

    def member(self, group: str, client_id: str) -> Member | None:
        """One connected member by its client id."""
        entry = self._groups.get(group)
        members = () if entry is None else entry.members.values()
        return next((member for member in members if member.client_id == client_id), None)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """The group's subscription to the topic, if there is one."""
        entry = self._groups.get(group)
        return None if entry is None else entry.subscriptions.get(topic)

    def groups_of_topic(self, topic: str) -> set[str]:
        """Connected groups that subscribe to the topic."""
        return {entry.name for entry in self._groups.values() if topic in entry.subscriptions}

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def _drop(self, entry: ConsumerGroup, asker: Asker) -> None:
        self._places.give(entry.members.pop(asker))
        groups = self._groups_of[asker]
        groups.discard(entry.name)
        if not groups:
            del self._groups_of[asker]
        if not entry.members:
            del self._groups[entry.name]
        else:
            self._tell(entry)

    def _tell(self, entry: ConsumerGroup) -> None:
        # A broadcasting client reads every queue whether it is alone or not: it has no use for a notice.
        if entry.notify and entry.message_model != BROADCASTING:
            self._notice.consumers_changed(entry.name, list(entry.members))
