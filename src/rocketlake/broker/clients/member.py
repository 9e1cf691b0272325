"""One connected member of a group.

Owns        the facts about a client behind a link.
Must not know   the groups of the client, how a link works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rocketlake.model.subscription import Subscription
from rocketlake.protocol.command import Command

__all__ = ["SILENT_SECONDS_MAX", "Link", "Member"]

SILENT_SECONDS_MAX = 120.0
"""A client without a heartbeat for this long is gone (ClientChannelInfo's expiry in RocketMQ)."""


class Link(Protocol):
    """The part of a connection that groups use. Links are compared by identity."""

    address: str
    """The other side, as "ip:port"."""

    @property
    def writable(self) -> bool:
        """False while the other side is behind with reading, and on a closed link."""

    def send(self, command: Command) -> None:
        """Send a one-way request; nothing happens on a closed link."""

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        """Ask and wait for the answer. Raises LinkError."""

    def close(self) -> None:
        """End the connection."""


@dataclass(slots=True)
class Member:
    """A client of a group: its link, its client id, language and version, when its last heartbeat came."""

    link: Link
    client_id: str
    language: str
    version: int
    heard: float
    """Seconds of the monotonic clock."""
    heard_ms: int
    """The same moment on the wall clock, for people."""
    since: float = 0.0
    """When the client joined by this link, seconds of the monotonic clock."""
    wants: dict[str, Subscription] | None = None
    """The subscriptions of this consumer itself, by topic; None before its first full heartbeat."""
