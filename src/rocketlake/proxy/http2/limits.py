"""Limits of gRPC connections: memory and time that one peer may take.

Owns        the numbers and their reasons.
Must not know   the code that holds to them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GrpcLimits"]


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Limits of one server. Names without a unit are counts."""

    connections: int = 10_000
    """Open links; the next one is closed at once."""
    connections_of_host: int = 5000
    streams: int = 1000
    """Calls of one link at once: a client with 64 threads needs 64, and those of its receives and of its telemetry."""
    stream_window_bytes: int = 256 << 10
    """So much of a request a peer may send before it hears of us; so many bytes of each stream there may be."""
    link_window_bytes: int = 1 << 30
    """No bound: it lies above those of all streams together. With one, many halves of requests would stop all."""
    header_list_bytes: int = 16 << 10
    headers: int = 128
    message_bytes: int = (4 << 20) + (64 << 10)
    """A message of 4 MiB with its properties; a larger one is refused before it is stored."""
    link_bytes: int = 32 << 20
    """Requests of one link that are not answered yet. Above it only the oldest of those that are not whole goes on."""
    all_bytes: int = 256 << 20
    """The same of all links; above it the largest link of the host with the most is closed (net/unfinished.py)."""
    unsent_bytes: int = 64 << 20
    """Answers that wait for a peer that does not read; above it the link is closed."""
    write_high_bytes: int = 256 << 10
    handshake_seconds: float = 10.0
    """A peer must have sent its first bytes so soon."""
    stalled_seconds: float = 30.0
    """A link whose answers or whose requests do not move for so long is closed."""
    ping_seconds: float = 60.0
    """A silent peer is asked for a sign of life, and closed when none comes in `pong_seconds`."""
    pong_seconds: float = 20.0
    drain_seconds: float = 3.0
