"""Removes silent clients and expired queue locks, every few seconds.

Owns        the interval.
Must not know   when a client is silent or a lock expired (consumers.py, producers.py, queue_locks.py).
"""

from __future__ import annotations

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.queue_locks import QueueLocks

__all__ = ["ClientSweep"]


class ClientSweep(Service):
    """Removes expired consumers and producers, closes their askers, and removes expired queue locks."""

    def __init__(
        self,
        consumers: ConsumerTable,
        producers: ProducerTable,
        queue_locks: QueueLocks,
        clock: Clock,
        interval_ms: int = 10_000,
    ) -> None:
        super().__init__("client-sweep", clock)
        self._consumers = consumers
        self._producers = producers
        self._queue_locks = queue_locks
        self._interval_seconds = interval_ms / 1000

    async def start(self) -> None:
        """Start to sweep."""
        await super().start()
        self.every("sweep", self._interval_seconds, self.sweep)

    def sweep(self) -> None:
        """Sweep once."""
        for asker in {*self._consumers.expire(), *self._producers.expire()}:
            call(asker.close)
        self._queue_locks.expire()
