"""The meter of one user or one topic: its four buckets, and what is said when one is empty.

Owns        which bucket decides, the texts.
Must not know   users, topics, requests.
"""

from __future__ import annotations

from rocketlake.broker.quotas.bucket import Bucket
from rocketlake.model.quota import Quota

__all__ = ["Meter", "Pause"]


class Pause:
    """A quota is used up."""

    __slots__ = ("seconds", "why")

    def __init__(self, seconds: float, why: str) -> None:
        """`seconds`: until something may pass again."""
        self.seconds = seconds
        self.why = why


class Meter:
    """Counts what passes."""

    __slots__ = ("_cure", "_in", "_out", "_owner", "quota")

    def __init__(self, owner: str, quota: Quota, cure: str) -> None:
        """`owner`: "user alice"; `cure`: what changes its quota."""
        self.quota = quota
        self._owner = owner
        self._cure = cure
        self._in = _Way("sent", quota.requests_in, quota.bytes_in)
        self._out = _Way("read", quota.requests_out, quota.bytes_out)

    def pause_in(self, now: float) -> Pause | None:
        """Why nothing may be sent now; None: it may."""
        return self._pause(self._in, now)

    def pause_out(self, now: float) -> Pause | None:
        """Why nothing may be read now; None: it may."""
        return self._pause(self._out, now)

    def spend_in(self, requests: int, size: int, now: float) -> None:
        """So many requests with messages of so many bytes were taken."""
        self._in.spend(requests, size, now)

    def spend_out(self, requests: int, size: int, now: float) -> None:
        """So many pulls were served, with messages of so many bytes."""
        self._out.spend(requests, size, now)

    def _pause(self, way: _Way, now: float) -> Pause | None:
        for bucket, unit in way.buckets:
            if seconds := bucket.wait(now):
                why = (
                    f"{self._owner}: {bucket.measured(now)} {unit} were {way.verb} in a second, its quota at this"
                    f" broker is {bucket.rate} ({self._cure})"
                )
                return Pause(seconds, why)
        return None


class _Way:
    """In, or out."""

    __slots__ = ("_bytes", "_requests", "buckets", "verb")

    def __init__(self, verb: str, requests: int, size: int) -> None:
        self.verb = verb
        self._requests = Bucket(requests) if requests else None
        self._bytes = Bucket(size) if size else None
        both = (self._requests, "requests"), (self._bytes, "bytes")
        self.buckets = [(bucket, unit) for bucket, unit in both if bucket is not None]

    def spend(self, requests: int, size: int, now: float) -> None:
        if self._requests is not None:
            self._requests.spend(requests, now)
        if self._bytes is not None:
            self._bytes.spend(size, now)
