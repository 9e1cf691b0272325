"""One connected member of a group, and how many memberships there may be.

Owns        the facts about a client behind an asker, the refusal of one membership too many.
Must not know   the groups of the client, how an asker works.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.model.subscription import Subscription
from rocketlake.net.request import Asker
from rocketlake.net.shares import Shares, owner_of

__all__ = ["SILENT_SECONDS_MAX", "Member", "Memberships"]

SILENT_SECONDS_MAX = 120.0
"""A client without a heartbeat for this long is gone (ClientChannelInfo's expiry in RocketMQ)."""


@dataclass(slots=True)
class Member:
    """A client of a group: its asker, its client id, language and version, when its last heartbeat came."""

    asker: Asker
    client_id: str
    language: str
    version: int
    heard: float
    """Seconds of the monotonic clock."""
    heard_ms: int
    """The same moment on the wall clock, for people."""
    since: float = 0.0
    """When the client joined by this asker, seconds of the monotonic clock."""
    wants: dict[str, Subscription] | None = None
    """The subscriptions of this consumer itself, by topic; None before its first full heartbeat."""
    owner: str = ""
    """Whose share its place is (Memberships)."""


class Memberships:
    """The places in groups, of producers and consumers together: each is a client in a group, by one connection."""

    def __init__(self, most: int = 400_000, most_of_one: int = 200_000) -> None:
        self._shares = Shares(most, most_of_one)
        self._most = most
        self._most_of_one = most_of_one

    def take(self, asker: Asker) -> str:
        """Take a place; returns whose share it is of. Raises UsageError if there is none."""
        owner, shares = owner_of(asker), self._shares
        if not shares.has_room(owner):
            what, name, limit = f"{shares.of(owner)} memberships of {owner}", "membershipsOfOneMax", self._most_of_one
            if shares.is_full:
                what, name, limit = f"{shares.total} memberships of clients", "membershipsMax", self._most
            raise UsageError(
                f"{what} in groups, {name}={limit} allows no more",
                hint=f"stop clients that name new groups again and again, or raise {name} in broker.conf",
            )
        shares.take(owner)
        return owner

    def give(self, member: Member) -> None:
        """The member has left its group."""
        self._shares.give(member.owner)
