"""Members of a consumer group that contradict each other: a warning in the log, shown to administrators.

Owns        when two members contradict each other, how often the warning comes.
Must not know   requests, which messages the group reads.

The latest heartbeat sets the subscriptions of the group, but each member skips messages by its own expression. The
queues are shared among all members. So a message in one member's queue that this member does not want reaches no member
at all. Two members with one client id count as one in the sharing of queues: both read the same queues. RocketMQ warns
of neither.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.clients.member import Member

__all__ = ["Disagreements", "is_unequal"]

_log = get_logger(__name__)
_AGAIN_SECONDS = 60.0
_SMALL = 100
"""A group of up to this many members is compared at each heartbeat."""
_LARGE_AGAIN_SECONDS = 10.0
_COMPARED_MAX = 20_000
"""Members and subscriptions compared in one go, which takes some milliseconds."""


class Disagreements:
    """Warns of members that contradict each other, at most once a minute for each group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._warnings = RareWarnings(_log, interval_seconds=_AGAIN_SECONDS, clock=clock)
        self._looked: dict[str, float] = {}
        """When each large group was compared last."""

    def look(self, group: str, members: Collection[Member], member: Member) -> None:
        """A heartbeat of `member` came: compare it with the other members of its group.

        Each member of a large group sends two heartbeats a minute, so a large group is not compared at each of them.
        """
        if len(members) > _SMALL and not self._is_due(group):
            return
        left = _COMPARED_MAX
        for other in members:
            left -= 1 + len(other.wants or ())
            if left < 0:
                return
            if other is member:
                continue
            if other.client_id == member.client_id and other.heard > member.since and member.heard > other.since:
                self._warnings.warn(
                    f"id {group}",
                    "group %s: two members have the client id %s (%s and %s), both get the same queues: give each an"
                    " instance name or a process of its own",
                    group,
                    member.client_id,
                    other.asker.address,
                    member.asker.address,
                )
            if _differ(other, member):
                self._warnings.warn(
                    f"wants {group}",
                    "group %s: its members subscribe to different things, messages that one does not want are lost to"
                    " the group: %s (%s) wants [%s], %s (%s) wants [%s]; give all members the same subscriptions",
                    group,
                    other.client_id,
                    other.asker.address,
                    _text(other),
                    member.client_id,
                    member.asker.address,
                    _text(member),
                )
                return

    def _is_due(self, group: str) -> bool:
        now = self._clock.monotonic()
        if now - self._looked.get(group, -_LARGE_AGAIN_SECONDS) < _LARGE_AGAIN_SECONDS:
            return False
        for known in [known for known, when in self._looked.items() if now - when >= _LARGE_AGAIN_SECONDS]:
            del self._looked[known]
        self._looked[group] = now
        return True


def is_unequal(members: Collection[Member]) -> bool:
    """True if two members of a group have different subscriptions."""
    known = [member for member in members if member.wants is not None]
    return any(_differ(known[0], member) for member in known[1:])


def _differ(one: Member, other: Member) -> bool:
    return one.wants != other.wants and one.wants is not None and other.wants is not None


def _text(member: Member) -> str:
    wants = member.wants or {}
    return ", ".join(f"{topic}: {wants[topic].expression}" for topic in sorted(wants))[:500]
