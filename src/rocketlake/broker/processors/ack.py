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
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES, ReviveLog
from rocketlake.broker.rights.pop import PopRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.pop import PopHandle, real_topic
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.pop import AckEntry, AckRecord, BatchAckBody, CheckPoint
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["Ack"]

_BITS_MAX = 4096
"""More messages are in no check point."""


class Ack:
    """Takes messages back out of check points."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, rights: PopRights, log: ReviveLog, intake: Intake, clock: Clock
    ) -> None:
        self._config = config
        self._store = store
        self._rights = rights
        self._log = log
        self._intake = intake
        self._clock = clock

    def ack(self, request: Request) -> Reply | Held:
        """ACK_MESSAGE."""
        header = request.header(AckHeader)
        handle = self._handle(header, beyond_end=0)
        if isinstance(handle, Reply):
            return handle
        result = self._log.put_ack(header.consumer_group, header.topic, handle, header.offset)
        return self._when_safe(request, result, Reply)

    def change(self, request: Request) -> Reply | Held:
        """CHANGE_MESSAGE_INVISIBLETIME."""
        header = request.header(ChangeInvisibleHeader)
        handle = self._handle(header, beyond_end=1)
        if isinstance(handle, Reply):
            return handle
        now_ms = self._clock.now_ms()
        point = CheckPoint(
            broker_name=self._config.now.broker_name,
            group=header.consumer_group,
            differences=[0],
            invisible_ms=header.invisible_time,
            count=1,
            pop_ms=now_ms,
            queue_id=header.queue_id,
            start_offset=header.offset,
            suspend=header.suspend,
            topic=header.topic,
        )
        result = self._log.put_check_point(point, handle.revive_queue)
        if result.status.is_stored and (handle.start_offset, handle.pop_ms) != (header.offset, now_ms):
            result = self._log.put_ack(header.consumer_group, header.topic, handle, header.offset)
        answer = ChangeInvisibleReplyHeader(
            pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=handle.revive_queue
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
            record = AckRecord(
                broker_name=self._config.now.broker_name,
                group=entry.group,
                pop_ms=entry.pop_ms,
                queue_id=entry.queue_id,
                start_offset=entry.start_offset,
                topic=topic,
            )
            last = self._log.put_acks(record, offsets, entry.revive_queue, entry.pop_ms + entry.invisible_ms)
            if not last.status.is_stored:
                break
        return Reply() if last is None else self._when_safe(request, last, Reply)

    def _batches(self, entries: list[AckEntry]) -> Iterator[tuple[AckEntry, str, list[int]]]:
        for entry in entries:
            if not 0 <= entry.revive_queue < REVIVE_QUEUES or len(entry.bits) * 8 > _BITS_MAX:
                raise Refused("an entry names no check point", code=ResponseCode.MESSAGE_ILLEGAL)
            topic = real_topic(entry.topic, entry.group, entry.retry)
            low, high = self._store.min_offset(topic, entry.queue_id), self._store.max_offset(topic, entry.queue_id)
            offsets = [offset for offset in entry.offsets() if low <= offset <= high]
            if offsets:
                yield entry, topic, offsets

    def _handle(self, header: AckHeader, *, beyond_end: int) -> PopHandle | Reply:
        """The handle of the message, or the refusal. `beyond_end`: 1 if the end of the queue is no message."""
        self._rights.acknowledged(header)
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id) - beyond_end
        if not low <= header.offset <= high:
            return Reply(
                ResponseCode.NO_MESSAGE,
                remark=f"offset is illegal, key:{header.topic}@{header.consumer_group}@{header.queue_id},"
                f" commit:{header.offset}, store:{low}~{high}",
            )
        handle = PopHandle.parse(header.extra_info)
        if not 0 <= handle.revive_queue < REVIVE_QUEUES:
            raise Refused(
                f"the handle names queue {handle.revive_queue} of the revive topic", code=ResponseCode.MESSAGE_ILLEGAL
            )
        return handle

    def _when_safe(self, request: Request, result: PutResult, done: Callable[[], Reply]) -> Reply | Held:
        """Answer when the record is as safe as a send."""
        if not result.status.is_stored:
            return put_failure(result.status, result)

        def answer(status: PutStatus) -> None:
            is_safe = status is PutStatus.OK
            request.answer(done() if is_safe else Reply(ResponseCode.SYSTEM_ERROR, remark=f"{status.name}, ask again"))

        self._intake.when_durable(result, {}, answer)
        return HELD
