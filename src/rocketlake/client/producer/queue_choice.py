"""The choice of the queue for the next message.

Owns        the round robin per topic, avoiding a broker, the ready-made selectors.
Must not know   sending, routes beyond a list of queues.

One counter per topic serves the whole producer: the sends of all its tasks together spread evenly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rocketlake.base.errors import UsageError
from rocketlake.base.java.consistent_hash import bucket_of
from rocketlake.base.java.java_compat import string_hash
from rocketlake.client.producer.fault_latency import FaultLatency
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]


class QueueChoice:
    """Round robin over a topic's queues; a broker that just failed, or is too slow, is passed over."""

    def __init__(self, faults: FaultLatency) -> None:
        self._faults = faults
        self._next: dict[str, int] = {}

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], *, avoid: frozenset[str] = frozenset(), now: float
    ) -> MessageQueue:
        """The next queue whose broker is available and not in `avoid`; without one, the next queue all the same."""
        start = self._turn(topic, len(queues))
        if not avoid and not self._faults.enabled:
            return queues[start]
        rotated = [queues[(start + step) % len(queues)] for step in range(len(queues))]
        for queue in rotated:
            if queue.broker_name not in avoid and self._faults.is_available(queue.broker_name, now):
                return queue
        for queue in rotated:
            if queue.broker_name not in avoid:
                return queue
        return queues[start]

    def _turn(self, topic: str, modulus: int) -> int:
        turn = self._next.get(topic)
        if turn is None:
            # A random start: otherwise all producers that start together would send to queue 0 first.
            turn = random.randrange(1 << 16)
        self._next[topic] = turn + 1
        return turn % modulus


def by_key(key: str | int) -> Selector:
    """Equal keys go to one queue: Java's hash of the key modulo the number of queues, so Java producers agree."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        what = f"the key of a send is text or a whole number, not {type(key).__name__}"
        raise UsageError(what, hint="decode it: key.decode()" if isinstance(key, bytes) else "give str(key)")
    number = java_hash(key)

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        # Java takes the remainder with its sign, then the absolute value.
        return queues[abs(number) % len(queues)]

    return select


def by_lite_topic(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Messages of a lite topic go to one broker, the one that the proxies choose for it, ours and Apache's."""
    return queues[bucket_of(string_hash(message.lite_topic or ""), len(queues))]


def at_random(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Any queue."""
    return random.choice(queues)


def java_hash(key: str | int) -> int:
    """hashCode of a Java String, Integer or Long, signed 32 bits."""
    if isinstance(key, str):
        return string_hash(key)
    if -(1 << 31) <= key < (1 << 31):
        return key
    folded = (key ^ (key >> 32)) & 0xFFFFFFFF
    return folded - (1 << 32) if folded & 0x80000000 else folded
