"""Locks of queues: which client of an ordered consumer group owns which queue.

Owns        the owner of each (group, queue) and when it renewed its lock.
Must not know   requests, connections, which queues exist.

Invariant: a queue of a group has one owner; a lock not renewed for 60 s belongs to the next client that asks
(rocketmq.broker.rebalance.lockMaxLiveTime).
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketlake.base.clock import Clock
from rocketlake.model.message_queue import MessageQueue

__all__ = ["LOCK_LIFE_MS", "QueueLocks"]

LOCK_LIFE_MS = 60_000


class _Lock:
    __slots__ = ("client_id", "deadline")

    def __init__(self, client_id: str, deadline: float) -> None:
        self.client_id = client_id
        self.deadline = deadline


class QueueLocks:
    """Queue locks of ordered consumers, by group."""

    def __init__(self, clock: Clock, life_ms: int = LOCK_LIFE_MS) -> None:
        """`life_ms`: how long a lock lives without being renewed."""
        self._clock = clock
        self._life_seconds = life_ms / 1000
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock each queue that is free, expired or the client's own; returns those that the client owns now."""
        now = self._clock.monotonic()
        deadline = now + self._life_seconds
        locks = self._groups.setdefault(group, {})
        held = set()
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                locks[queue] = _Lock(client_id, deadline)
            elif lock.client_id == client_id or lock.deadline <= now:
                lock.client_id = client_id
                lock.deadline = deadline
            else:
                continue
            held.add(queue)
        if not locks:
            del self._groups[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlock these queues, except those that another client owns."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            del self._groups[group]

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """The client that owns the queue now, if any."""
        lock = self._groups.get(group, {}).get(queue)
        if lock is None or lock.deadline <= self._clock.monotonic():
            return None
        return lock.client_id

    def any_held(self, group: str) -> bool:
        """True if a client owns a queue of the group (RocketMQ takes such a group as ordered)."""
        now = self._clock.monotonic()
        return any(lock.deadline > now for lock in self._groups.get(group, {}).values())

    def expire(self) -> None:
        """Forget expired locks, so that groups long gone take no memory."""
        now = self._clock.monotonic()
        for group in list(self._groups):
            live = {queue: lock for queue, lock in self._groups[group].items() if lock.deadline > now}
            if live:
                self._groups[group] = live
            else:
                del self._groups[group]
