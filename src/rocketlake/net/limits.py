"""Limits of links: what one peer, and all together, may cost us.

Owns        the numbers and why they are so.
Must not know   where they are enforced (link.py, server.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketlake.protocol.limits import WireLimits


@dataclass(frozen=True, slots=True)
class NetLimits:
    """Limits of one server or client. Names without a unit are counts; those of single links say so."""

    wire: WireLimits = field(default_factory=WireLimits)
    connections: int = 10_000
    """Open links of a server; one more is closed at once."""
    connect_seconds: float = 3.0
    """How long a client waits for a connection (Java: 3 s)."""
    idle_seconds: float = 120.0
    """A link without a byte in either direction is closed (Java: 120 s)."""
    unfinished_bytes: int = 256 * 1024 * 1024
    """Received bytes of frames that are not complete, of all links of a server; above it the largest is closed."""
    frame_seconds: float = 30.0
    """A frame that has begun must be complete after this, or its sender is a slow-loris."""
    stuck_seconds: float = 30.0
    """A peer that stays behind (see `write_high_bytes`) for this long is closed."""
    turn_seconds: float = 0.002
    """How long those who have much to do may keep the loop, all together, before it looks at its sockets again.

    Long enough for the consumers of what one look at the sockets brings: else sends would always be ahead of them."""
    brief_turn_seconds: float = 0.0001
    """The same while old records are read from disk: a consumer that is far behind has work without end."""
    write_high_bytes: int = 256 * 1024
    """Above this many unwritten bytes nothing more is read from or served to the peer."""
    unsent_bytes: int = 64 * 1024 * 1024
    """Answers of held requests that wait for such a peer; above it the link is closed."""
    held: int = 16_384
    """Requests of one link that may be held at once; the next are answered SYSTEM_BUSY."""
    pending: int = 65_535
    """Requests of ours on one link that wait for an answer (Java: 65535 permits)."""
