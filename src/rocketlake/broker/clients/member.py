"""One connected member of a group.

Owns        the facts about a client behind an asker.
Must not know   the groups of the client, how an asker works.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.model.subscription import Subscription
from rocketlake.net.request import Asker

__all__ = ["SILENT_SECONDS_MAX", "Member"]

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
