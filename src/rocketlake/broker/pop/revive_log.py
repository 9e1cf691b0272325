"""The records of pops in the revive topic: what was handed out together, what of it is acknowledged.

Owns        the topic, tags, keys and times of delivery of the records (RocketMQ's PopMessageProcessor).
Must not know   requests, what becomes of the records (revive.py).

A record waits in the timer wheel until shortly before the messages come again, an acknowledgement a second longer than
its check point: so it is read behind it. All of that is in the log, so it is on replicas as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import Intake
from rocketlake.codec.host import encode_host
from rocketlake.model import property_names as names
from rocketlake.model.pop import PopHandle
from rocketlake.model.topic import REVIVE_LOG_PREFIX
from rocketlake.protocol.bodies.pop import AckRecord, CheckPoint
from rocketlake.store.results import PutMessage, PutResult, PutStatus

if TYPE_CHECKING:
    from rocketlake.broker.pop.point_runs import PointRuns

__all__ = ["ACKS_TAG", "ACK_TAG", "CHECK_POINT_TAG", "REVIVE_QUEUES", "ReviveLog"]

CHECK_POINT_TAG, ACK_TAG, ACKS_TAG = "ck", "ack", "bAck"
REVIVE_QUEUES = 8
"""RocketMQ's reviveQueueNum. Both brokers must read all queues that the other has written, so it is no setting."""
_AHEAD_MS = 1000
"""A check point is delivered so much before its acknowledgements."""


class ReviveLog:
    """Writes records. They can be lost until `Intake.when_durable` says otherwise."""

    def __init__(
        self,
        config: LiveConfig,
        intake: Intake,
        clock: Clock,
        store_address: Callable[[], tuple[str, int]],
        points: PointRuns | None = None,
    ) -> None:
        self._config = config
        self._intake = intake
        self._clock = clock
        self._store_address = store_address
        self.points = points
        """The short way for plain check points; None where it is not compiled."""

    @property
    def topic(self) -> str:
        """The revive topic of this cluster."""
        return REVIVE_LOG_PREFIX + self._config.now.cluster_name

    def put_check_point(self, point: CheckPoint, revive_queue: int) -> PutResult:
        """Note what is handed out; the result tells no more than whether it is stored. RemoteError if its time is too
        far away."""
        if self.put_check_points([(point, revive_queue)]):
            return PutResult(PutStatus.OK)
        key = (
            f"{point.topic}@{point.queue_id}@{point.start_offset}@{point.group}@{point.pop_ms}@{point.broker_name}"
            f"@{CHECK_POINT_TAG}"
        )
        return self._put(point.encode(), revive_queue, CHECK_POINT_TAG, point.due_ms - _AHEAD_MS, key)

    def takes_runs(self, invisible_ms: int) -> bool:
        """True if check points of messages that are invisible for so long can be stored in a run."""
        return self.points is not None and self.points.takes(invisible_ms - _AHEAD_MS)

    def put_check_points(self, points: Sequence[tuple[CheckPoint, int]]) -> bool:
        """Note what is handed out, each with its revive queue, in one run. False: nothing was done, put them singly."""
        if self.points is None:
            return False
        records = [(point, revive_queue, point.due_ms - _AHEAD_MS) for point, revive_queue in points]
        return self.points.put(records, encode_host(*self._store_address()))

    def put_ack(self, group: str, topic: str, handle: PopHandle, offset: int) -> PutResult:
        """Note that the message at `offset` is done with. `topic`: the one it lies in."""
        record = AckRecord(
            offset=offset,
            broker_name=handle.broker_name,
            group=group,
            pop_ms=handle.pop_ms,
            queue_id=handle.queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        return self._put_ack(record, handle.revive_queue, ACK_TAG, handle.pop_ms + handle.invisible_ms)

    def put_acks(self, record: AckRecord, offsets: Sequence[int], revive_queue: int, due_ms: int) -> PutResult:
        """The same for several messages of one check point."""
        record.offsets = list(offsets)
        return self._put_ack(record, revive_queue, ACKS_TAG, due_ms)

    def _put_ack(self, record: AckRecord, revive_queue: int, tag: str, due_ms: int) -> PutResult:
        offset = record.offset if record.offsets is UNSET else -1  # as in RocketMQ, for several messages too
        key = f"{record.topic}@{record.queue_id}@{offset}@{record.group}@{record.pop_ms}@{record.broker_name}@{ACK_TAG}"
        return self._put(record.encode(), revive_queue, tag, due_ms, key)

    def _put(self, body: bytes, revive_queue: int, tag: str, deliver_ms: int, key: str) -> PutResult:
        host = encode_host(*self._store_address())
        message = PutMessage(
            self.topic,
            revive_queue,
            body,
            born_ms=self._clock.now_ms(),
            born_host=host,
            store_host=host,
            is_own=True,
        )
        properties = {names.TAGS: tag, names.TIMER_DELIVER_MS: str(deliver_ms), names.UNIQUE_KEY: key}
        return self._intake.put(message, properties)
