"""ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME: a consumer is done with popped messages, or not yet.

Owns        which records these requests write, when they are answered.
Must not know   the form of the records (pop/revive_log.py), when messages come again.

Departure: the answer waits until the record is as safe as a send, and says so if it is not. After it the consumer is
done with the message. Apache answers "done" also when the record could not be stored.

A new invisible time is a new check point, and an acknowledgement of the old one, in this order: between the two a crash
has the message come twice, and never not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.broker.lite.acks import AckLite
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.in_flight import InFlight
from rocketlake.broker.pop.order_table import ILLEGAL, STALE, OrderTable
from rocketlake.broker.pop.pop_hold import PopHold
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES, ReviveLog
from rocketlake.broker.rights.pop import PopRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.pop import ANY_QUEUE, ORDER_REVIVE_QUEUE, POINT_SPAN_MAX, PopHandle, real_topic
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.pop import AckEntry, AckRecord, BatchAckBody, CheckPoint
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["Ack", "not_safe"]


class Ack:
    """Takes messages back out of check points."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        rights: PopRights,
        log: ReviveLog,
        intake: Intake,
        offsets: OffsetTable,
        orders: OrderTable,
        in_flight: InFlight,
        holds: tuple[PopHold, ...],
        lite: AckLite,
        clock: Clock,
    ) -> None:
        """`holds`: pops and notifications that wait, perhaps for a queue that is popped in order."""
        self._config = config
        self._store = store
        self._rights = rights
        self.log = log
        self.intake = intake
        self._offsets = offsets
        self._orders = orders
        self.in_flight = in_flight
        self._holds = holds
        self._lite = lite
        self._clock = clock

    def ack(self, request: Request) -> Reply | Held:
        """ACK_MESSAGE."""
        header = request.header(AckHeader)
        if header.lite_topic:
            return self._lite.ack(header, header.lite_topic)
        handle = self._handle(header, beyond_end=0)
        if isinstance(handle, Reply):
            return handle
        if handle.revive_queue == ORDER_REVIVE_QUEUE:
            return self._ack_in_order(
                (header.consumer_group, header.topic, header.queue_id), header.offset, handle.pop_ms
            )
        result = self._put_ack(header, handle)
        return self._when_safe(request, result, Reply)

    def _put_ack(self, header: AckHeader, handle: PopHandle) -> PutResult:
        result = self.log.put_ack(header.consumer_group, header.topic, handle, header.offset)
        if result.status.is_stored:
            key = header.consumer_group, header.topic, header.queue_id
            self.in_flight.take(key, handle.pop_ms + handle.invisible_ms)
        return result

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The queue offsets from and up to which messages may be acknowledged; or Refused."""
        self._rights.acknowledged(topic, queue_id)
        return self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)

    def change(self, request: Request) -> Reply | Held:
        """CHANGE_MESSAGE_INVISIBLETIME."""
        header = request.header(ChangeInvisibleHeader)
        if header.lite_topic:
            return self._lite.change(header, header.lite_topic)
        handle = self._handle(header, beyond_end=1)
        if isinstance(handle, Reply):
            return handle
        if handle.revive_queue == ORDER_REVIVE_QUEUE:
            return self._change_in_order(header, handle)
        pop_ms: int = self._clock.now_ms()
        if handle.start_offset == header.offset:  # the new check point must have another name than the old one
            pop_ms = max(pop_ms, handle.pop_ms + 1)
        point = CheckPoint(
            broker_name=self._config.now.broker_name,
            group=header.consumer_group,
            differences=[0],
            invisible_ms=header.invisible_time,
            count=1,
            pop_ms=pop_ms,
            queue_id=header.queue_id,
            start_offset=header.offset,
            suspend=header.suspend,
            topic=header.topic,
        )
        result = self.log.put_check_point(point, handle.revive_queue)
        if result.status.is_stored:
            self.in_flight.add((header.consumer_group, header.topic, header.queue_id), point.due_ms, 1)
            result = self._put_ack(header, handle)
        answer = ChangeInvisibleReplyHeader(
            pop_time=pop_ms, invisible_time=header.invisible_time, revive_qid=handle.revive_queue
        )
        return self._when_safe(request, result, lambda: Reply(header=answer))

    def batch(self, request: Request) -> Reply | Held:
        """BATCH_ACK_MESSAGE: messages outside of their queue are passed by, as in RocketMQ."""
        if not request.body:
            return Reply(ResponseCode.NO_MESSAGE)
        entries = BatchAckBody.decode(request.body).acks
        if not entries:
            return Reply(ResponseCode.NO_MESSAGE)
        last: PutResult | None = None
        for entry, topic, offsets in list(self._batches(entries)):
            if entry.revive_queue == ORDER_REVIVE_QUEUE:
                for offset in offsets:
                    answer = self._ack_in_order((entry.group, topic, entry.queue_id), offset, entry.pop_ms)
                    if answer.code:
                        return answer
                continue
            record = AckRecord(
                broker_name=self._config.now.broker_name,
                group=entry.group,
                pop_ms=entry.pop_ms,
                queue_id=entry.queue_id,
                start_offset=entry.start_offset,
                topic=topic,
            )
            due_ms = entry.pop_ms + entry.invisible_ms
            last = self.log.put_acks(record, offsets, entry.revive_queue, due_ms)
            if not last.status.is_stored:
                break
            self.in_flight.take((entry.group, topic, entry.queue_id), due_ms, len(offsets))
        return Reply() if last is None else self._when_safe(request, last, Reply)

    def _batches(self, entries: list[AckEntry]) -> Iterator[tuple[AckEntry, str, list[int]]]:
        for entry in entries:
            if not _is_revive_queue(entry.revive_queue) or len(entry.bits) * 8 > POINT_SPAN_MAX:
                raise Refused("an entry names no check point", code=ResponseCode.MESSAGE_ILLEGAL)
            topic = real_topic(entry.topic, entry.group, entry.retry)
            low, high = self._store.min_offset(topic, entry.queue_id), self._store.max_offset(topic, entry.queue_id)
            offsets = [offset for offset in entry.offsets() if low <= offset <= high]
            if offsets:
                yield entry, topic, offsets

    def _handle(self, header: AckHeader, *, beyond_end: int) -> PopHandle | Reply:
        """The handle of the message, or the refusal. `beyond_end`: 1 if the end of the queue is no message."""
        low, high = self.bounds(header.topic, header.queue_id)
        high -= beyond_end
        if not low <= header.offset <= high:
            return Reply(
                ResponseCode.NO_MESSAGE,
                remark=f"offset is illegal, key:{header.topic}@{header.consumer_group}@{header.queue_id},"
                f" commit:{header.offset}, store:{low}~{high}",
            )
        handle = PopHandle.parse(header.extra_info)
        if not _is_revive_queue(handle.revive_queue):
            raise Refused(
                f"the handle names queue {handle.revive_queue} of the revive topic", code=ResponseCode.MESSAGE_ILLEGAL
            )
        return handle

    def _ack_in_order(self, key: tuple[str, str, int], offset: int, pop_ms: int) -> Reply:
        """A message that was popped in order: the group goes on behind it, or the queue is free again."""
        next_offset = self._orders.acknowledge(key, offset, pop_ms, max(0, self._offsets.query(*key)))
        if next_offset == ILLEGAL:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, remark=f"offset {offset} is not in flight")
        if next_offset != STALE and not self._offsets.has_reset(*key):
            self._offsets.commit(*key, next_offset)
            if not self._orders.blocked_until(key, None):
                self._wake(key)
        return Reply()

    def _change_in_order(self, header: ChangeInvisibleHeader, handle: PopHandle) -> Reply:
        key = header.consumer_group, header.topic, header.queue_id
        if header.offset < self._offsets.query(*key):
            return Reply(header=ChangeInvisibleReplyHeader(pop_time=0, invisible_time=0, revive_qid=0))
        visible_ms = self._clock.now_ms() + header.invisible_time
        self._orders.change(key, header.offset, handle.pop_ms, visible_ms)
        self._wake(key)  # a pop that waits for the queue to be free looks anew
        answer = ChangeInvisibleReplyHeader(
            pop_time=handle.pop_ms, invisible_time=visible_ms - handle.pop_ms, revive_qid=ORDER_REVIVE_QUEUE
        )
        return Reply(header=answer)

    def _wake(self, key: tuple[str, str, int]) -> None:
        group, topic, queue_id = key
        for waits_at in (ANY_QUEUE, queue_id):
            for hold in self._holds:
                hold.wake_one((topic, group, waits_at))

    def _when_safe(self, request: Request, result: PutResult, done: Callable[[], Reply]) -> Reply | Held:
        """Answer when the record is as safe as a send."""
        if not result.status.is_stored:
            return put_failure(result.status, result)

        def answer(status: PutStatus) -> None:
            request.answer(done() if status is PutStatus.OK else not_safe(status))

        self.intake.when_durable(result, {}, answer)
        return HELD


def not_safe(status: PutStatus) -> Reply:
    """The answer when the record of a request is stored, but did not become safe."""
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"{status.name}, ask again")


def _is_revive_queue(queue_id: int) -> bool:
    return 0 <= queue_id < REVIVE_QUEUES or queue_id == ORDER_REVIVE_QUEUE
