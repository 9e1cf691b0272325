"""How much one micro-batch reads: at most so many messages or bytes, at least so many messages.

Owns        sharing a limit among queues, waiting for a minimum.
Must not know   Spark, how new messages are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.offsets import Offsets

__all__ = ["MinimumWait", "share_bytes", "share_limit"]

Measure = Callable[[Mapping[MessageQueue, tuple[int, int]]], dict[MessageQueue, float]]

_ROUNDS = 4
_TOLERANCE = 1.1


def share_limit(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], limit: int) -> Offsets:
    """End offsets that read about `limit` messages, shared by backlog.

    The rule of Spark's Kafka source: shares are rounded down, but a waiting queue gets at least one message, so that
    a short queue is never starved by long ones. The sum passes `limit` by less than the number of queues.
    """
    backlog = {queue: max(0, end[queue] - start.get(queue, 0)) for queue in end}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    return {
        queue: start.get(queue, 0) + max(1, size * limit // total) if size else end[queue]
        for queue, size in backlog.items()
    }


def share_bytes(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], limit: int, measure: Measure
) -> Offsets:
    """End offsets that read about `limit` bytes, shared by backlog; sizes are measured where the batch would lie.

    A waiting queue gets at least one message, whatever its size. Where sizes change along a queue, the ends are
    drawn in until samples of the shorter ranges fit.
    """
    ends = dict(end)
    for _ in range(_ROUNDS):
        waiting = {queue: (start.get(queue, 0), ends[queue]) for queue in ends if ends[queue] > start.get(queue, 0)}
        if not waiting:
            return ends
        sizes = measure(waiting)
        total = sum((high - low) * sizes[queue] for queue, (low, high) in waiting.items())
        if total <= limit * _TOLERANCE:
            return ends
        for queue, (low, high) in waiting.items():
            ends[queue] = low + max(1, int((high - low) * limit / total))
    return ends


class MinimumWait:
    """minOffsetsPerTrigger and maxTriggerDelay: the first micro-batch never waits, as with Kafka."""

    def __init__(self, minimum: int | None, delay_ms: int) -> None:
        self._minimum = minimum
        self._delay_seconds = delay_ms / 1000
        self._last: float | None = None

    def holds_back(self, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], now: float) -> bool:
        """True if this micro-batch must wait for more messages."""
        waiting = sum(max(0, offset - start.get(queue, offset)) for queue, offset in end.items())
        if waiting == 0:
            return False
        late = self._last is None or now - self._last >= self._delay_seconds
        if self._minimum is not None and waiting < self._minimum and not late:
            return True
        self._last = now
        return False
