"""Brings messages back that were popped and not acknowledged in time.

Owns        the reading of the revive topic, which check points are open, how far each of its queues is done with.
Must not know   requests, the form of a retry (retries.py).

Each queue of the revive topic is read in order, check points are kept until they are due, acknowledgements take
messages out of them. A check point is due when its time is over **and** all records that were to come by then are read:
the timer has delivered up to its time, and the queue is read up to the end that it had then. So a slow timer brings
nothing back too early. An acknowledgement that comes before its check point (the timer was late) waits for it.

The offset of RocketMQ's group CID_RMQ_SYS_REVIVE_GROUP is the last record that is done with. It moves up to the first
open check point, and is committed when all copies that were put before are safe: on disk, and in a group confirmed. So
no failure loses a message. Check points that were there at the start may be dealt with already: the log is asked for
the copies of their messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.pop.in_flight import InFlight
from rocketlake.broker.pop.positions import PopPositions
from rocketlake.broker.pop.retries import PopRetries
from rocketlake.broker.pop.revive_log import ACK_TAG, ACKS_TAG, CHECK_POINT_TAG, ReviveLog
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import REVIVE_GROUP
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.protocol.bodies.pop import AckRecord, CheckPoint
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["Revive", "ReviveQueue"]

_log = get_logger(__name__)

_READ_COUNT = 32
_READ_BYTES = 1 << 20
_TURN_SECONDS = 0.002
"""Messages are brought back for so long before other work gets a turn."""
_OPEN_MAX = 100_000
"""Above it no more check points are kept than are needed to know which of them are due."""

_MergeKey = tuple[str, str, int, int, int, str]


class _Open:
    """A check point that is not dealt with. `place`: its offset in the queue; `left`: what is not acknowledged."""

    __slots__ = ("left", "place", "point", "record_at")

    def __init__(self, point: CheckPoint, place: int, record_at: PhysicalOffset) -> None:
        self.point = point
        self.record_at = record_at
        self.place = place
        self.left = {offset for i, offset in enumerate(point.offsets) if not point.bit_map >> i & 1}


class _EarlyAck:
    """Acknowledgements that came before their check point."""

    __slots__ = ("offsets", "place", "read_ms")

    def __init__(self, place: int, read_ms: int) -> None:
        self.place = place
        self.read_ms = read_ms
        self.offsets: set[int] = set()


class ReviveQueue:
    """One queue of the revive topic."""

    def __init__(
        self,
        queue_id: int,
        *,
        config: LiveConfig,
        store: MessageStore,
        log: ReviveLog,
        topics: TopicTable,
        groups: GroupTable,
        positions: PopPositions,
        retries: PopRetries,
        in_flight: InFlight,
        delivered_ms: Callable[[], int],
        clock: Clock,
    ) -> None:
        """`delivered_ms`: the timer has delivered what was due before."""
        self._id = queue_id
        self._config = config
        self._store = store
        self._log = log
        self._topics = topics
        self._groups = groups
        self._positions = positions
        self._retries = retries
        self._in_flight = in_flight
        self._delivered_ms = delivered_ms
        self._clock = clock
        self._warnings = RareWarnings(_log, clock=clock)
        self._next = QueueOffset(0)
        self._done = -1
        self._open: dict[_MergeKey, _Open] = {}
        self._early: dict[_MergeKey, _EarlyAck] = {}
        self._read_ms = 0
        """All records that were to come before this time are read."""
        self._tick_ms = 0
        """The tick of the timer of which a record was read last: all records of earlier ticks came before it."""
        self._before = PhysicalOffset(0)
        """The end of the log at the start."""
        self._turn_end = 0.0
        """Monotonic seconds."""
        self._unread: OSError | None = None
        """Why a message that is due could not be read in this pass; others have come again all the same."""

    def start(self) -> None:
        """Go on behind the last record that is known to be done with."""
        self._done = self._positions.next_offset(REVIVE_GROUP, self._log.topic, self._id)
        self._next = QueueOffset(self._done + 1)
        self._open.clear()
        self._early.clear()
        self._read_ms = self._tick_ms = 0
        self._before = self._store.max_physical_offset

    @property
    def has_work(self) -> bool:
        """True if there are records to read, or to deal with."""
        is_behind = self._next < self._store.max_offset(self._log.topic, self._id)
        return self._store.is_complete and (is_behind or bool(self._open) or bool(self._early))

    @property
    def behind(self) -> int:
        """Records that are not done with."""
        return max(0, self._store.max_offset(self._log.topic, self._id) - (self._done + 1))

    @property
    def late_ms(self) -> int:
        """How long the time of the oldest check point is over that is not dealt with; 0: of none."""
        oldest = next(iter(self._open.values()), None)
        return 0 if oldest is None else max(0, self._clock.now_ms() - oldest.point.due_ms)

    async def make_pass(self) -> None:
        """Read what has come, deal with what is due. OSError: the disk does not give all of it; the rest is done."""
        self._unread = None
        delivered_ms = self._delivered_ms()
        end = self._store.next_offset(self._log.topic, self._id)
        while self._has_room() and await self._store.read(self._read_next):
            await self._clock.sleep(0)
        # It goes back with a clock that was set back, as the timer does: acknowledgements are to come by its time.
        self._read_ms = delivered_ms if self._next >= end else min(self._tick_ms, delivered_ms)
        self._turn_end = self._clock.monotonic() + _TURN_SECONDS
        for key in [key for key, each in self._open.items() if each.point.due_ms < self._read_ms]:
            if not self._open[key].left or await self._bring_back(self._open[key]):
                del self._open[key]
            await self._rest()
        for key in [key for key, early in self._early.items() if early.read_ms < self._read_ms]:
            del self._early[key]
        self._note_done()
        if self._unread is not None:
            raise self._unread

    def _note_done(self) -> None:
        """Everything before the first record that is still needed is done with."""
        done = int(self._next) - 1
        if self._open:
            done = min(done, next(iter(self._open.values())).place - 1)
        if self._early:
            done = min(done, next(iter(self._early.values())).place - 1)
        if done > self._done:
            self._done = done
            self._positions.move(REVIVE_GROUP, self._log.topic, self._id, done)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """False if many check points are open, and the first of them is known to be due: it makes room."""
        return len(self._open) < _OPEN_MAX or self._tick_ms <= next(iter(self._open.values())).point.due_ms

    def _read_next(self) -> bool:
        """Take the next records; False at the end of the queue. Raises NotInMemory."""
        result = self._get(self._log.topic, self._id, self._next, _READ_COUNT)
        if result.status is GetStatus.FOUND:
            for message in decode_records(b"".join(result.slices), check_crc=False):
                self._take(message)
        elif result.next_offset <= self._next or result.status is GetStatus.OFFSET_OVERFLOW_BADLY:
            return False
        self._next = result.next_offset
        return True

    def _take(self, message: StoredMessage) -> None:
        tag = message.properties.get(names.TAGS)
        try:
            self._tick_ms = int(message.properties.get(names.TIMER_OUT_MS, self._tick_ms))
            if tag == CHECK_POINT_TAG:
                self._take_point(CheckPoint.decode(message.body), message)
            elif tag in (ACK_TAG, ACKS_TAG):
                self._take_ack(AckRecord.decode(message.body), message.queue_offset)
        except (UsageError, ValueError, msgspec.MsgspecError) as error:
            self._warnings.warn(
                "record", "record %d of %s is passed by: %s", message.queue_offset, message.topic, error
            )

    def _take_point(self, point: CheckPoint, message: StoredMessage) -> None:
        key = point.topic, point.group, point.queue_id, point.start_offset, point.pop_ms, point.broker_name
        opened = _Open(point, message.queue_offset, PhysicalOffset(message.physical_offset))
        early = self._early.pop(key, None)
        if early is not None:
            opened.left -= early.offsets
        self._open[key] = opened

    def _take_ack(self, ack: AckRecord, place: int) -> None:
        key = ack.topic, ack.group, ack.queue_id, ack.start_offset, ack.pop_ms, ack.broker_name
        offsets = [ack.offset] if isinstance(ack.offsets, msgspec.UnsetType) else ack.offsets
        opened = self._open.get(key)
        if opened is not None:
            opened.left.difference_update(offsets)
        else:
            self._early.setdefault(key, _EarlyAck(place, self._clock.now_ms())).offsets.update(offsets)

    # -- bringing back -------------------------------------------------------------------------------------------------

    async def _bring_back(self, opened: _Open) -> bool:
        """Put what is not acknowledged into the retry topic; False: not all of it yet."""
        point = opened.point
        key = point.group, point.topic, point.queue_id
        why = self._why_not(point)
        if why:
            self._warnings.warn(point.group, "popped messages do not come again: %s", why)
            self._in_flight.take(key, point.due_ms, len(opened.left))
            return True
        if not self._retries.prepare(point):
            return False
        for offset in sorted(opened.left):
            try:
                is_back = await self._store.read(partial(self._bring_one_back, opened, offset))
            except OSError as error:
                self._unread = error
                continue
            if not is_back:
                return False
            opened.left.discard(offset)
            self._in_flight.take(key, point.due_ms)
            await self._rest()
        return not opened.left

    def _bring_one_back(self, opened: _Open, offset: int) -> bool:
        """Put one message there, unless its copy is there. Raises NotInMemory."""
        point = opened.point
        message = self._message(point, offset)
        if message is None or (
            opened.record_at < self._before and self._retries.has_copy(message, point, opened.record_at)
        ):
            return True
        return self._retries.put(message, point)

    async def _rest(self) -> None:
        """Called between small pieces of work: other work gets a turn when this one's is over."""
        if self._clock.monotonic() >= self._turn_end:
            self._note_done()
            await self._clock.sleep(0)
            self._turn_end = self._clock.monotonic() + _TURN_SECONDS

    def _why_not(self, point: CheckPoint) -> str:
        if self._topics.get(point.topic) is None:
            return f"the topic {point.topic} is gone"
        if self._groups.find(point.group) is None:
            return f"the group {point.group} is gone"
        own = self._config.now.broker_name
        if point.broker_name and point.broker_name != own:
            return f"they were popped from broker {point.broker_name}, this one is {own}"
        return ""

    def _message(self, point: CheckPoint, offset: int) -> StoredMessage | None:
        """The message at this offset; None if it is gone. Raises NotInMemory."""
        result = self._get(point.topic, point.queue_id, QueueOffset(offset), 1)
        for message in decode_records(b"".join(result.slices), check_crc=False, decompress=False):
            if message.queue_offset == offset:
                return message
        return None

    def _get(self, topic: str, queue_id: int, offset: QueueOffset, count: int) -> GetResult:
        """Messages from `offset` on. Raises NotInMemory: the loop must not wait for the disk."""
        result = self._store.get(topic, queue_id, offset, count, _READ_BYTES, wait=False)
        if result.status is GetStatus.NOT_IN_MEMORY:
            raise NotInMemory(list(result.cold))
        return result


class Revive(Service):
    """All queues of the revive topic."""

    def __init__(
        self,
        queues: list[ReviveQueue],
        positions: PopPositions,
        clock: Clock,
        interval_ms: int,
        is_ready: Callable[[], bool],
    ) -> None:
        """`interval_ms`: reviveInterval. `is_ready`: True once the log can be read up to its end at the start."""
        super().__init__("pop-revive", clock)
        self._is_ready = is_ready
        self.queues = queues
        self._positions = positions
        self._interval_ms = interval_ms

    async def start(self) -> None:
        """Begin with what is not known to be done with."""
        await super().start()
        for queue in self.queues:
            queue.start()
        self.every("passes", self._interval_ms / 1000, self._make_passes)

    async def _make_passes(self) -> None:
        self._positions.hurry()
        failure: Exception | None = None
        for queue in self.queues:  # one after the other: each takes its turns of the loop
            if self._is_ready() and queue.has_work:
                try:
                    await queue.make_pass()
                except Exception as error:  # it holds up no other queue
                    failure = error
        if failure is not None:
            raise failure
