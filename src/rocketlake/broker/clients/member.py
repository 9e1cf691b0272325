"""One connected member of a group.

Owns        what is known of a client behind a link.
Must not know   which groups it is in, how a link works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rocketlake.model.subscription import Subscription
from rocketlake.protocol.command import Command

__all__ = ["SILENT_SECONDS_MAX", "Link", "Member"]

SILENT_SECONDS_MAX = 120.0
"""A client not heard for this long is gone (ClientChannelInfo's expiry in RocketMQ)."""


class Link(Protocol):
    """What the groups need of a connection. Links are compared by identity."""

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
    """A client of a group: its link, its own name for itself, what it is made of, when it was last heard."""

    link: Link
    client_id: str
    language: str
    version: int
    heard: float
    """Seconds of the monotonic clock."""
    heard_ms: int
    """The same moment on the wall clock, for people."""
    since: float = 0.0
    """When it came on this link, seconds of the monotonic clock."""
    wants: dict[str, Subscription] | None = None
    """What a consumer itself subscribes to, by topic; None until it has said so."""
