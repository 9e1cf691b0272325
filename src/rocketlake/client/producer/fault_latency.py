"""Avoid slow and dead brokers: each send's latency decides how long its broker is passed over.

Owns        the fault table by broker name.
Must not know   queues, the network, the clock (times come in as monotonic seconds).

Rule (RocketMQ): after a send of 550 ms or more its broker is passed over for 2 s; 1800 ms: 5 s, 3000: 6 s, 5000: 10 s,
15000: 30 s. A failed send counts as 10000 ms. A later send never shortens a ban.
"""

from __future__ import annotations

from bisect import bisect_right

LATENCY_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
BANNED_MS = (0, 0, 2000, 5000, 6000, 10000, 30000)
FAILED_SEND_MS = 10_000


class FaultLatency:
    """The brokers to prefer now. With `enabled` false every broker is always available."""

    def __init__(self, *, enabled: bool = False) -> None:
        self.enabled = enabled
        self._banned_until: dict[str, float] = {}

    def sent(self, broker_name: str, latency_ms: float, now: float) -> None:
        """A send was answered after `latency_ms`."""
        if self.enabled:
            self._ban(broker_name, ban_ms(latency_ms), now)

    def failed(self, broker_name: str, now: float) -> None:
        """A send was not accepted or not answered."""
        if self.enabled:
            self._ban(broker_name, FAILED_SEND_MS, now)

    def is_available(self, broker_name: str, now: float) -> bool:
        """True if a send may choose this broker at `now`."""
        return now >= self._banned_until.get(broker_name, 0.0)

    def _ban(self, broker_name: str, duration_ms: int, now: float) -> None:
        until = now + duration_ms / 1000
        if duration_ms and until > self._banned_until.get(broker_name, 0.0):
            self._banned_until[broker_name] = until


def ban_ms(latency_ms: float) -> int:
    """How long a broker with this latency is passed over, in ms."""
    column = bisect_right(LATENCY_MS, latency_ms) - 1
    return BANNED_MS[column] if column >= 0 else 0
