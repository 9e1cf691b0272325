"""One pop: which queues are looked at, in which order, and what is handed out of them.

Owns        the order of queues and of retry topics, where a group starts, the check point before the answer.
Must not know   requests, rights, how a pop waits.

Rules (RocketMQ's PopMessageProcessor): one pop in `popFromRetryProbability` of a hundred looks at retry topics first,
the others if the topic gave too little. Queues are looked at downwards from a random one; those of a topic of messages
with priorities from the highest priority down. Messages are handed out only
if their check point is stored. An offset that leads nowhere moves the group, and the queue is read once more.

One pop reads one retry topic, as in RocketMQ: of the two forms of its name the one that `enableRetryTopicV2` says, half
of the time the other one if there is such a topic: it was made under the other setting.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.in_flight import InFlight
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.broker.pop.popped import Popped, Take, named_anew, offsets_of, records_of
from rocketlake.broker.pop.positions import Move, PopPositions
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES, ReviveLog
from rocketlake.broker.property_filter import read_tested, record_test
from rocketlake.broker.rights.pop import PopRight
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.pop import NO_RETRY, RETRY_MARKS, RETRY_V1, RETRY_V2, PopHandle, pop_retry_topic
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.bodies.pop import CheckPoint
from rocketlake.protocol.limits import FRAME_BYTES_MAX
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rocketlake.broker.pop.plain_reads import PlainReads

__all__ = ["Pop", "PopReads"]

_BYTES_MAX = FRAME_BYTES_MAX - (1 << 20)
"""An answer is one frame. Messages that were popped and do not fit would come again for ever. The rest of the frame is
for its header, and for the handles in messages that come again."""
_PROPERTIES_BYTES_MAX = 64 << 10
_FROM_END = 1
"""initMode of a consumer that wants new messages only."""
_LEADS_NOWHERE = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)
_NOT_WANTED = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)
_START = QueueOffset(0)


class Pop(NamedTuple):
    """What one pop asks for. Times in ms."""

    right: PopRight
    queue_id: int
    messages_max: int
    invisible_ms: int
    init_mode: int
    pop_ms: int
    revive_queue: int
    ordered: bool = False
    attempt_id: str | None = None


class PopReads:
    """Reads for pops that were admitted."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicTable,
        offsets: OffsetTable,
        positions: PopPositions,
        log: ReviveLog,
        orders: OrderTable,
        in_flight: InFlight,
        clock: Clock,
        plain: PlainReads | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._positions = positions
        self._log = log
        self._orders = orders
        self._in_flight = in_flight
        self._clock = clock
        self._turn = 0
        self.plain = plain
        """The short way to records in memory; None where it is not compiled."""

    @property
    def turn(self) -> AbstractContextManager[None]:
        """Reads lie in such blocks, which end in the turn of the loop in which they begin."""
        return self.plain or nullcontext()

    def next_revive_queue(self) -> int:
        """The queue for the next check points: each in its turn."""
        self._turn = (self._turn + 1) % REVIVE_QUEUES
        return self._turn

    def read(self, pop: Pop) -> Popped:
        """Hand out messages. RemoteError if there is a time for them that no check point can have."""
        with self.turn:
            found = self.find(pop)
        if not self.hand_out([(pop, found)]):
            self._hand_out_singly(pop, found)
        return found

    def find(self, pop: Pop) -> Popped:
        """Find messages, and go on behind them: in a block of `turn`, and `hand_out` follows in the same turn."""
        found = Popped()
        try:
            self._find(pop, found)
        except BaseException:
            self._positions.take_back(found.moves)
            raise
        return found

    def _find(self, pop: Pop, found: Popped) -> None:
        draw = random.randrange(100)
        topic, config = pop.right.topic, self._config.now
        by_priority = _is_by_priority(pop)
        percent = config.priority_retry_percent if by_priority else config.pop_retry_percent
        retries_first = draw < percent and not pop.ordered
        if retries_first:
            self._read_retries(pop, draw, found)
        queue_ids = _in_order(topic, pop.queue_id, draw)
        if by_priority:
            queues = range(topic.read_queues)
            queue_ids = reversed(queues) if config.priority_ascends else iter(queues)
        if pop.ordered:
            for queue_id in queue_ids:
                self._read_queue(pop, topic.name, NO_RETRY, queue_id, found)
        else:
            self._read_queues(pop, topic.name, NO_RETRY, queue_ids, found)
        if not retries_first and not pop.ordered and self._room(pop, found) > 0:
            self._read_retries(pop, draw, found)

    def peek(self, pop: Pop, *, chosen: bool = False) -> Popped:
        """What a pop would get; nothing is handed out. `chosen`: only what its filter takes."""
        with self.turn:
            return self._peek(pop, chosen=chosen)

    def _peek(self, pop: Pop, *, chosen: bool) -> Popped:
        found = Popped()
        name, group = pop.right.topic.name, pop.right.group.name
        sources = [(NO_RETRY, pop.right.topic)]
        if not pop.ordered:
            retries = ((mark, self._topics.get(pop_retry_topic(name, group, mark))) for mark in RETRY_MARKS)
            sources += [(mark, topic) for mark, topic in retries if topic is not None]
        for mark, topic in sources:
            queue_ids = _in_order(topic, pop.queue_id if mark == NO_RETRY else -1, 0)
            if not pop.ordered:
                queue_ids = (queue_id for queue_id, _ in self._positions.not_at_end(group, topic.name, queue_ids))
            for queue_id in queue_ids:
                if not (pop.ordered and self._is_blocked(pop, topic.name, queue_id, found)):
                    self._peek_queue(pop, topic.name, mark, queue_id, found, chosen=chosen)
        return found

    def _peek_queue(self, pop: Pop, topic: str, mark: str, queue_id: int, found: Popped, *, chosen: bool) -> None:
        offset = QueueOffset(max(0, self._positions.place(pop.right.group.name, topic, queue_id)))
        room = self._room(pop, found)
        if room <= 0:
            found.rest += max(0, self._store.max_offset(topic, queue_id) - offset)
            return
        filters = chosen and mark == NO_RETRY
        result = self._get(pop, topic, queue_id, offset, found, filters=filters)
        if result.status in _LEADS_NOWHERE and result.next_offset != offset:
            result = self._get(pop, topic, queue_id, result.next_offset, found, filters=filters)
        if result.status is GetStatus.FOUND:
            found.count += result.count
            found.bytes += result.bytes
            found.pieces.extend(result.slices)
        found.cold = found.cold or result.cold
        found.is_more = found.is_more or (result.status in _NOT_WANTED and result.next_offset < result.max_offset)
        found.rest += max(0, result.max_offset - result.next_offset)

    def _read_retries(self, pop: Pop, draw: int, found: Popped) -> None:
        usual, other = (RETRY_V2, RETRY_V1) if self._config.now.retry_topic_v2 else (RETRY_V1, RETRY_V2)
        name, group = pop.right.topic.name, pop.right.group.name
        topics = [(mark, self._topics.get(pop_retry_topic(name, group, mark))) for mark in (usual, other)]
        if draw % 2 == 0 or topics[0][1] is None:
            topics.reverse()
        for mark, topic in topics:
            if topic is not None:
                self._read_queues(pop, topic.name, mark, _in_order(topic, -1, draw), found)
                return

    def _read_queues(self, pop: Pop, topic: str, mark: str, queue_ids: Iterator[int], found: Popped) -> None:
        """Read as many of the queues as the answer has room for; of the others say how much is left."""
        is_full = False
        for queue_id, left in self._positions.not_at_end(pop.right.group.name, topic, queue_ids):
            if is_full and left is not None:
                found.rest += max(0, left)
            else:
                self._read_queue(pop, topic, mark, queue_id, found)
                is_full = self._room(pop, found) <= 0

    def _read_queue(self, pop: Pop, topic: str, mark: str, queue_id: int, found: Popped) -> None:
        group = pop.right.group.name
        if pop.ordered and self._is_blocked(pop, topic, queue_id, found):
            return
        offset = self._start(pop, topic, mark, queue_id)
        room = self._room(pop, found)
        if room <= 0:
            found.rest += max(0, self._store.max_offset(topic, queue_id) - offset)
            return
        filters = mark == NO_RETRY  # what comes again was wanted when it was handed out first
        result = self._get(pop, topic, queue_id, offset, found, filters=filters)
        if result.status in _LEADS_NOWHERE and result.next_offset != offset:
            offset = result.next_offset
            self._pass_by(pop, topic, queue_id, offset, found)
            result = self._get(pop, topic, queue_id, offset, found, filters=filters)
        if result.status is GetStatus.NOT_IN_MEMORY:
            found.cold = found.cold or result.cold
            found.rest += max(0, result.max_offset - offset)
        elif result.status is GetStatus.FOUND and pop.ordered:
            in_order = list(offsets_of(result))
            found.counts += self._orders.hand_out(
                (group, topic, queue_id), pop.attempt_id, pop.pop_ms, pop.invisible_ms, in_order
            )
            self._offsets.commit(group, topic, queue_id, offset)
            found.add(mark, queue_id, offset, in_order, result.slices)
            found.count += len(in_order)
            found.rest += max(0, result.max_offset - result.next_offset)
        elif result.status is GetStatus.FOUND:
            offsets = offsets_of(result)
            move = self._positions.advance((group, topic, queue_id), result.next_offset)
            found.moves.append(move)
            found.takes.append(Take(move, mark, offset, offsets, result.slices))
            found.count += len(offsets)
            found.bytes += result.bytes
            found.rest += max(0, result.max_offset - result.next_offset)
        elif result.status in _NOT_WANTED and result.next_offset > offset:
            self._pass_by(pop, topic, queue_id, result.next_offset, found)
            found.is_more = found.is_more or result.next_offset < result.max_offset
            found.rest += max(0, result.max_offset - result.next_offset)

    def _is_blocked(self, pop: Pop, topic: str, queue_id: int, found: Popped) -> bool:
        """True if messages of the queue are in flight. They are not, once the group was moved elsewhere."""
        key = pop.right.group.name, topic, queue_id
        if self._offsets.has_reset(*key):
            self._orders.forget(key)
        free_ms = self._orders.blocked_until(key, pop.attempt_id)
        if free_ms:
            found.free_ms = min(free_ms, found.free_ms or free_ms)
        return free_ms > 0

    def _pass_by(self, pop: Pop, topic: str, queue_id: int, offset: int, found: Popped) -> None:
        """Go on at `offset`: what lies before it is not handed out."""
        key = pop.right.group.name, topic, queue_id
        if pop.ordered:
            self._offsets.commit(*key, offset)
        else:
            found.moves.append(self._positions.advance(key, offset))

    def _start(self, pop: Pop, topic: str, mark: str, queue_id: int) -> QueueOffset:
        group = pop.right.group.name
        offset = self._positions.next_offset(group, topic, queue_id)
        if offset < 0:
            offset = 0
            if pop.init_mode == _FROM_END and mark == NO_RETRY and not self._is_new(topic, queue_id):
                offset = max(0, self._store.max_offset(topic, queue_id) - 1)
            self._offsets.commit(group, topic, queue_id, offset)
        return QueueOffset(offset)

    def _is_new(self, topic: str, queue_id: int) -> bool:
        """True if the first message ever is still in memory: a consumer of new messages begins with it, too."""
        try:
            with self._store.disk_wait.none():
                return self._store.is_in_memory(topic, queue_id, _START)
        except NotInMemory:
            return False

    def _room(self, pop: Pop, found: Popped) -> int:
        """How many more messages fit into the answer, whatever their size."""
        if found.bytes and found.bytes + self._store.config.body_bytes_max + _PROPERTIES_BYTES_MAX > _BYTES_MAX:
            return 0
        return pop.messages_max - found.count

    def _get(
        self, pop: Pop, topic: str, queue_id: int, offset: QueueOffset, found: Popped, *, filters: bool
    ) -> GetResult:
        """What is there from `offset` on, as much as fits behind what was found; one message fits in any case.

        `filters`: only what the filter of the pop takes.
        """
        subscription, match = pop.right.subscription, pop.right.match
        room, bytes_max = self._room(pop, found), _BYTES_MAX - found.bytes
        if not filters:
            return self._store.get(topic, queue_id, offset, room, bytes_max, wait=False)
        if not subscription.is_tag_type:
            asked = (topic, queue_id, offset, room, bytes_max)
            return read_tested(self._store, self._clock, asked, record_test(subscription.expression), wait=False)
        if self.plain is not None:
            result = self.plain.get(topic, queue_id, offset, room, bytes_max, match=match)
            if result is not None:
                return result
        return self._store.get(topic, queue_id, offset, room, bytes_max, match=match, wait=False)

    def can_hand_out_together(self, invisible_ms: int) -> bool:
        """False if `hand_out` would refuse the messages of a pop with this invisible time."""
        return self._log.takes_runs(invisible_ms)

    def hand_out(self, pops: Sequence[tuple[Pop, Popped]]) -> bool:
        """Hand out what these pops have found: store the check points in one run. False: nothing was stored, and the
        positions are what they were before."""
        points = [(self._check_point(pop, take), pop.revive_queue) for pop, found in pops for take in found.takes]
        is_stored = False
        try:
            is_stored = not points or self._log.put_check_points(points)
        finally:
            if not is_stored:
                self.take_back(pops)
        if is_stored:
            self._positions.secure(_moves(pops))
            for pop, found in pops:
                found.bytes = sum(map(len, found.pieces))  # a pop in order has some; the takes add theirs
                for take in found.takes:
                    self._add(pop, take, found)
        return is_stored

    def take_back(self, pops: Sequence[tuple[Pop, Popped]]) -> None:
        """Have others find what these pops, the last ones, have found."""
        self._positions.take_back(_moves(pops))

    def _hand_out_singly(self, pop: Pop, found: Popped) -> None:
        """What can be stored of it."""
        takes = {take.move: take for take in found.takes}
        found.count = found.bytes = 0
        for move in found.moves:
            take = takes.get(move)
            if take is None:
                self._positions.move(*move.key, move.offset)
            elif self._log.put_check_point(self._check_point(pop, take), pop.revive_queue).status.is_stored:
                self._positions.move(*move.key, move.offset)
                self._add(pop, take, found)
                found.count += len(take.offsets)
            else:
                found.rest += len(take.offsets)

    def _check_point(self, pop: Pop, take: Take) -> CheckPoint:
        group, topic, queue_id = take.move.key
        start = take.start
        return CheckPoint(
            broker_name=self._config.now.broker_name,
            group=group,
            differences=[offset - start for offset in take.offsets],
            invisible_ms=pop.invisible_ms,
            count=len(take.offsets),
            pop_ms=pop.pop_ms,
            queue_id=queue_id,
            start_offset=start,
            topic=topic,
        )

    def _add(self, pop: Pop, take: Take, found: Popped) -> None:
        """The check point of this part is stored: it belongs to the answer."""
        self._in_flight.add(take.move.key, pop.pop_ms + pop.invisible_ms, len(take.offsets))
        mark, queue_id, pieces = take.mark, take.move.key[2], take.pieces
        if mark != NO_RETRY and not self._config.now.shows_retry_topic:
            marks = pop.pop_ms, pop.invisible_ms, pop.revive_queue, mark, self._config.now.broker_name, queue_id
            pieces = [
                named_anew(record, pop.right.topic.name, str(PopHandle(take.start, *marks, offset)))
                for record, offset in zip(records_of(pieces), take.offsets, strict=True)
            ]
        found.add(mark, queue_id, take.start, take.offsets, pieces)


def _moves(pops: Sequence[tuple[Pop, Popped]]) -> list[Move]:
    return [move for _, found in pops for move in found.moves]


def _is_by_priority(pop: Pop) -> bool:
    """True if this pop goes by priority: the group's attribute says in how many of a hundred."""
    if pop.ordered or pop.queue_id >= 0 or pop.right.topic.attributes.get("message.type") != "PRIORITY":
        return False
    return random.randrange(100) < int(pop.right.group.attributes.get("priority.factor", "100"))


def _in_order(topic: TopicConfig, queue_id: int, draw: int) -> Iterator[int]:
    """The queues to look at."""
    if queue_id >= 0:
        yield queue_id
        return
    for i in range(topic.read_queues):
        yield (topic.read_queues - 1 - i + draw) % topic.read_queues
