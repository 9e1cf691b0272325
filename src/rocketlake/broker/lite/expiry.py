"""Forgets lite topics that have expired: their entries, and how far groups were in them.

Owns        when it is looked for them, in which order they are forgotten.
Must not know   what expired means (lite/light_queues.py): nobody reads such a lite topic, also before it is forgotten.

It is forgotten some minutes later than it has expired: the offsets of its groups are gone at all replicas then, and a
new master whose clock is behind would hand out again what was acknowledged.

Departure from RocketMQ: subscriptions stay. Apache drops them unseen by the clients, which say them anew within 30
seconds, and hear of no message until then.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.lite import LITE_BIND, split_light_queue

__all__ = ["LiteExpiry"]

_SOME = 500


class LiteExpiry(Service):
    """Of all parents of a broker."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        queues: LightQueues,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        orders: OrderTable,
        clock: Clock,
    ) -> None:
        super().__init__("lite-expiry", clock)
        self._config = config
        self._queues = queues
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._orders = orders

    async def start(self) -> None:
        """Look for expired lite topics from now on."""
        await super().start()
        self.every("sweep", lambda: self._config.now.lite_check_interval_ms / 1000, self._sweep)

    async def _sweep(self) -> None:
        for parent in [topic.name for topic in self._topics.all()]:
            gone = 0
            for count in self._queues.forget_expired(parent):
                gone += count
                await self._clock.sleep(0)
            if gone:
                for _ in self._forget_progress(parent):
                    await self._clock.sleep(0)

    def _forget_progress(self, parent: str) -> Iterator[None]:
        """Drop what groups have of light queues that are not there. Steps end while the table is made anew."""
        for group in self._groups_of(parent):
            topics = self._offsets.topics_of(group)
            for first in range(0, len(topics), _SOME):
                if not self._queues.is_ready:
                    return
                for topic in topics[first : first + _SOME]:
                    if self._is_gone(topic, parent):
                        self._offsets.remove(group, topic)
                yield
        for key in list(self._orders):
            if self._queues.is_ready and self._is_gone(key[1], parent):
                self._orders.forget(key)

    def _groups_of(self, parent: str) -> list[str]:
        groups = self._groups.all().items()
        return [name for name, group in groups if group.attributes.get(LITE_BIND) == parent]

    def _is_gone(self, topic: str, parent: str) -> bool:
        names = split_light_queue(topic)
        return names is not None and names[0] == parent and not self._queues.has(*names)
