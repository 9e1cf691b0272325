"""Times of protobuf.

Owns        milliseconds <-> Timestamp, Duration.
Must not know   what a time means.

A part of a millisecond is cut off, as Java's converter does.
"""

from __future__ import annotations

from typing import Any

from rocketlake.proxy.v2 import messages as v2

__all__ = ["duration", "ms_of", "timestamp"]


def timestamp(ms: int) -> Any:
    """The `v2.Timestamp` of epoch ms."""
    return v2.Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def duration(ms: int) -> Any:
    """The `v2.Duration` of ms, 0 or more."""
    return v2.Duration(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def ms_of(time: Any) -> int:
    """Of a `v2.Timestamp` or `v2.Duration`."""
    seconds, nanos = time.seconds, time.nanos
    part = nanos // 1_000_000 if nanos >= 0 else -(-nanos // 1_000_000)
    return int(seconds * 1000 + part)
