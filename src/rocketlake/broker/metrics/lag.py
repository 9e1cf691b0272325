"""How far consumer groups are behind, in messages and in time.

Owns        the walk over the groups' offsets, what is remembered of the walk before.
Must not know   requests, how offsets are kept.

The age of a message is read from its record. Of old messages that may lie on disk only: a worker reads them, some at a
scrape, and what was read is remembered until the group has moved on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Final, NamedTuple

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.metrics.labels import lag_labels
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.progress import PopProgress
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.names import keeps_first_offsets
from rocketlake.model.positions import QueueOffset
from rocketlake.net.http.exposition import Family, Pace
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore

__all__ = ["GroupLag"]

_COLD_READS_MAX: Final = 64
"""Of one scrape; the ages of other old messages come with later ones."""
_Place = tuple[str, int, int]
"""Topic, queue id, offset."""


class _Row(NamedTuple):
    """One group in one topic."""

    labels: str
    lag: int
    lag_ms: int
    unacked: int
    """Messages handed out, but not committed."""
    overdue: int
    """Popped messages among them that were not acknowledged in time, and come again in a moment."""
    waiting: int
    """Messages not handed out yet."""
    waiting_ms: int
    largest: int
    """Lag of the queue that is furthest behind."""


_FAMILIES: Final[tuple[tuple[str, str, str, Callable[[_Row], float]], ...]] = (
    ("rocketmq_consumer_lag_messages", "", "Messages not committed", lambda row: row.lag),
    ("rocketmq_consumer_lag_latency", "milliseconds", "Age of the oldest of them", lambda row: row.lag_ms),
    ("rocketmq_consumer_inflight_messages", "", "Messages handed out, not committed", lambda row: row.unacked),
    (
        "rocketmq_consumer_queueing_latency",
        "milliseconds",
        "Age of the oldest message not handed out",
        lambda row: row.waiting_ms,
    ),
    (
        "rocketlake_group_overdue_messages",
        "",
        "Messages popped, not acknowledged in time, and not brought back yet",
        lambda row: row.overdue,
    ),
    ("rocketmq_consumer_ready_messages", "", "Messages not handed out", lambda row: row.waiting),
    ("rocketlake_group_lag", "seconds", "Age of the oldest message not committed", lambda row: row.lag_ms / 1000),
    (
        "rocketlake_group_oldest_unacked",
        "seconds",
        "Age of the oldest message handed out and not committed",
        lambda row: row.lag_ms / 1000 if row.unacked else 0.0,
    ),
    (
        "rocketlake_group_lag_messages_max_queue",
        "",
        "Lag of the queue that is furthest behind",
        lambda row: row.largest,
    ),
)


class GroupLag:
    """The lag of all groups of one broker."""

    def __init__(
        self,
        offsets: OffsetTable,
        topics: TopicTable,
        groups: GroupTable,
        pops: PopProgress,
        store: MessageStore,
        clock: Clock,
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._pops = pops
        self._store = store
        self._clock = clock
        self._known: dict[_Place, int] = {}
        """Store times (ms) of messages at which a group stood, as of the last walk."""

    async def families(self, pace: Pace) -> AsyncGenerator[Family, None]:
        """Walk over all groups, then tell."""
        known, self._known = self._known, {}
        rows: list[_Row] = []
        self._cold_reads = 0
        popped = self._pops.places()
        for group, topic, queues in list(self._offsets.all()):
            config = self._topics.get(topic)
            if config is not None and self._groups.find(group) is not None and not keeps_first_offsets(group):
                offsets = [queues.get(queue_id, -1) for queue_id in range(config.queues)]
                rows.append(await self._row(group, topic, offsets, known, has_popped=(group, topic) in popped))
                await pace.rest()
        for name, unit, text, value in _FAMILIES:
            yield Family(name, "gauge", text, ((row.labels, value(row)) for row in rows), unit)

    async def _row(
        self, group: str, topic: str, offsets: list[int], known: dict[_Place, int], *, has_popped: bool
    ) -> _Row:
        now = int(self._clock.now_ms())
        lag = unacked = overdue = waiting = largest = 0
        oldest = oldest_waiting = now
        pulled, max_offset = self._offsets.pulled_queues(group, topic), self._store.max_offset
        for queue_id, offset in enumerate(offsets):
            end = max_offset(topic, queue_id)
            handed = pulled.get(queue_id, -1)
            in_flight = 0
            if has_popped:
                popped = self._pops.of(group, topic, queue_id)
                in_flight = popped.in_flight + popped.overdue
                lag += in_flight
                unacked += in_flight
                overdue += popped.overdue
                largest = max(largest, in_flight)
                offset, handed = max(offset, popped.next_offset), max(handed, popped.handed)
            if offset < 0 or offset >= end:
                continue  # without an offset the group begins where its settings say
            # Conditions, not min and max, and no task for what is known: ten thousand queues stand here.
            if handed < offset:
                handed = offset
            elif handed > end:
                handed = end
            lag += end - offset
            unacked += handed - offset
            waiting += end - handed
            if largest < end - offset + in_flight:
                largest = end - offset + in_flight
            place = topic, queue_id, offset
            stored_ms = self._still_known(place, known) or await self._stored_ms(place)
            if 0 < stored_ms < oldest:
                oldest = stored_ms
            if handed < end:
                if handed != offset:
                    place = topic, queue_id, handed
                    stored_ms = self._still_known(place, known) or await self._stored_ms(place)
                if 0 < stored_ms < oldest_waiting:
                    oldest_waiting = stored_ms
        labels = lag_labels(group, topic)
        return _Row(labels, lag, now - oldest, unacked, overdue, waiting, now - oldest_waiting, largest)

    def _still_known(self, place: _Place, known: dict[_Place, int]) -> int:
        """The store time of the message there as the walk before knew it; 0 if it did not."""
        found = known.get(place, 0)
        if found:
            self._known[place] = found
        return found

    async def _stored_ms(self, place: _Place) -> int:
        """The store time of the first readable message from this place on; 0 if it is not known yet."""
        if (found := self._known.get(place)) is not None:
            return found
        topic, queue_id, offset = place
        first = max(self._store.min_offset(topic, queue_id), QueueOffset(offset))
        read = partial(self._store.store_ms_at, topic, queue_id, first)
        try:
            with self._store.disk_wait.none():
                found = int(read())
        except NotInMemory:
            self._cold_reads += 1
            if self._cold_reads > _COLD_READS_MAX:
                return 0
            found = await self._read_cold(read)
        except (OSError, StoreError):
            return 0
        if found > 0:
            self._known[place] = found
        return max(0, found)

    async def _read_cold(self, read: Callable[[], int]) -> int:
        try:
            return int(await self._store.read(read))
        except (OSError, StoreError):
            return 0
