"""Limits of links: memory and time that one peer, and all peers together, may take.

Owns        the numbers and their reasons.
Must not know   the code that holds to them (link.py, input.py, output.py, server.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketlake.protocol.limits import WireLimits


@dataclass(frozen=True, slots=True)
class NetLimits:
    """Limits of one server or client. Names without a unit are counts."""

    wire: WireLimits = field(default_factory=WireLimits)
    connections: int = 10_000
    """Open links of a server; the next one is closed at once."""
    connections_of_host: int = 5000
    """Open links from one host, so that one alone cannot take all."""
    connect_seconds: float = 3.0
    """How long a client waits for a connection (Java: 3 s)."""
    handshake_seconds: float = 10.0
    """A peer that has begun to encrypt must be done so soon; it counts as a connection meanwhile."""
    idle_seconds: float = 120.0
    """A link without a byte in either direction is closed (Java: 120 s)."""
    unfinished_bytes: int = 256 * 1024 * 1024
    """Received bytes of incomplete frames, of all links of a server; above it a link is closed (unfinished.py)."""
    frame_seconds: float = 30.0
    """A frame must be complete this long after its first byte; a slower link is closed."""
    stuck_seconds: float = 30.0
    """A peer that stays behind (see `write_high_bytes`) for this long is closed."""
    turn_seconds: float = 0.002
    """A turn: all queued work together may keep the loop so long, before the loop reads sockets again.

    Long enough to wake and answer the consumers of one socket read. With less, sends always outrun consumers
    (docs/internals/hot_path.md)."""
    brief_turn_seconds: float = 0.0001
    """A turn while old records are read from disk: a consumer that is far behind has work without end."""
    write_high_bytes: int = 256 * 1024
    """Above this many unwritten bytes the peer counts as behind: no more is read from it or served to it."""
    unsent_bytes: int = 64 * 1024 * 1024
    """Answers of held requests that wait for a peer that is behind; above it the link is closed."""
    held: int = 16_384
    """Requests of one link that may be held at once; the next one is answered SYSTEM_BUSY."""
    pending: int = 65_535
    """Our requests on one link that may wait for an answer (Java: 65535 permits)."""
