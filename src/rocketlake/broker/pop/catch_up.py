"""Finds what was handed out before this broker began to pop, and was not yet noted in the table of offsets.

Owns        which check points of the log are looked at, at each start; the wait until they can be read.
Must not know   requests, when messages come again.

The table of offsets is behind the pops: by some seconds after a crash, by a second on a slave. The check points are in
the log, on their way through the timer topic. The table holds, too, up to which record of the timer topic its offsets
tell (positions.py): so a start reads the few that came later. Without it, messages that were acknowledged in these
seconds would come again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.base.java.java_compat import string_hash
from rocketlake.base.service import Service
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.offsets.table import NO_OFFSET
from rocketlake.broker.pop.positions import TIMER_QUEUE, PopPositions
from rocketlake.broker.pop.revive_log import CHECK_POINT_TAG
from rocketlake.broker.stored_message import read_message
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model import property_names as names
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import REVIVE_LOG_PREFIX, TIMER_TOPIC
from rocketlake.protocol.bodies.pop import CheckPoint
from rocketlake.store.message_store import MessageStore

__all__ = ["PopCatchUp"]

_ENTRIES = 64
_WITHOUT_MARK = 10_000
"""So many of the newest records of the timer topic are looked at, if nothing says how far the offsets tell."""
_PAUSE_SECONDS = 0.05
_TAG_CODE = string_hash(CHECK_POINT_TAG)


class PopCatchUp(Service):
    """Brings the positions of groups up to the end of the log, at each start."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        positions: PopPositions,
        done: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`done` is called when pops may be served."""
        super().__init__("pop-catch-up", clock)
        self._store = store
        self._topics = topics
        self._groups = groups
        self._positions = positions
        self._done = done
        self._next = QueueOffset(0)
        self.is_done = False

    async def start(self) -> None:
        """Begin to read, beside other work."""
        await super().start()
        self.is_done = False
        self.spawn("reading", self._catch_up(self._store.max_physical_offset))

    async def _catch_up(self, log_end: PhysicalOffset) -> None:
        while not self._store.is_complete or self._store.dispatched_offset < log_end:
            await self._clock.sleep(_PAUSE_SECONDS)
        end = self._store.max_offset(TIMER_TOPIC, TIMER_QUEUE)
        mark = self._positions.mark
        first = end - _WITHOUT_MARK if mark == NO_OFFSET else mark
        self._next = QueueOffset(max(0, first, await self._store.read(self._first)))
        while self._next < end:
            await self._store.read(partial(self._take_next, end))
            await self._clock.sleep(0)
        self.is_done = True
        self._done()

    def _first(self) -> int:
        return self._store.min_offset(TIMER_TOPIC, TIMER_QUEUE)

    def _take_next(self, end: QueueOffset) -> None:
        """Look at some entries. Raises NotInMemory."""
        entries = self._store.queue_entries(TIMER_TOPIC, TIMER_QUEUE, self._next, _ENTRIES)
        if not entries:
            self._next = end
        for physical_offset, _size, tag_code in entries:
            if tag_code == _TAG_CODE:
                self._look_at(PhysicalOffset(physical_offset))
            self._next = QueueOffset(self._next + 1)

    def _look_at(self, physical_offset: PhysicalOffset) -> None:
        message = read_message(self._store, physical_offset)
        if message is None or message.topic != TIMER_TOPIC:
            return
        if not message.properties.get(names.REAL_TOPIC, "").startswith(REVIVE_LOG_PREFIX):
            return  # a message of a user, with the same tag: it may say what it likes
        try:
            point = CheckPoint.decode(message.body)
        except UsageError:
            return  # passed by when its time comes, with a word in the log (revive.py)
        key = point.group, point.topic, point.queue_id
        is_gone = self._store.deletions.is_dead(point.topic, physical_offset) or self._topics.get(point.topic) is None
        if is_gone or self._groups.find(point.group) is None:
            return
        behind = max(point.offsets, default=-1) + 1
        if behind > self._positions.place(*key):
            self._positions.move(*key, behind)
