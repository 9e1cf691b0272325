"""ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME that name a lite topic.

Owns        the checks of these, their answers.
Must not know   how progress is kept (lite/progress.py).
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.progress import LiteProgress, OrderKey
from rocketlake.broker.lite.subscriptions import Subscriptions
from rocketlake.broker.pop.order_table import ILLEGAL, STALE
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.lite import LITE_QUEUE
from rocketlake.model.pop import ORDER_REVIVE_QUEUE, PopHandle
from rocketlake.net.request import Reply
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["AckLite"]


class AckLite:
    """Says what becomes of lite messages."""

    def __init__(
        self,
        rights: LiteRights,
        queues: LightQueues,
        progress: LiteProgress,
        subscriptions: Subscriptions,
        clock: Clock,
    ) -> None:
        self._rights = rights
        self._queues = queues
        self._progress = progress
        self._subscriptions = subscriptions
        self._clock = clock

    def ack(self, header: AckHeader, lite: str) -> Reply:
        """The message is done with."""
        handle, key = self._checked(header, lite)
        found = self._progress.acknowledge(key, header.offset, handle.pop_ms)
        if found == ILLEGAL:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, remark=f"message {header.offset} of {lite} is not in flight")
        if found != STALE and not self._progress.orders.blocked_until(key, None):
            self._subscriptions.note(header.topic, lite, header.consumer_group)
        return Reply()

    def change(self, header: ChangeInvisibleHeader, lite: str) -> Reply:
        """The message comes again at another time."""
        handle, key = self._checked(header, lite)
        if header.offset < self._progress.next_number(key):
            return Reply(header=ChangeInvisibleReplyHeader(pop_time=0, invisible_time=0, revive_qid=0))
        visible_ms = self._clock.now_ms() + header.invisible_time
        self._progress.orders.change(key, header.offset, handle.pop_ms, visible_ms)
        self._subscriptions.note(header.topic, lite, header.consumer_group)  # a pop that waits looks anew until when
        answer = ChangeInvisibleReplyHeader(
            pop_time=handle.pop_ms, invisible_time=visible_ms - handle.pop_ms, revive_qid=ORDER_REVIVE_QUEUE
        )
        return Reply(header=answer)

    def _checked(self, header: AckHeader, lite: str) -> tuple[PopHandle, OrderKey]:
        self._rights.bound(header.topic, header.consumer_group)
        handle = PopHandle.parse(header.extra_info)
        if header.queue_id != LITE_QUEUE or handle.revive_queue != ORDER_REVIVE_QUEUE:
            raise Refused("the handle is none of a lite message", code=ResponseCode.INVALID_PARAMETER)
        self._queues.check_ready()  # else a message would seem to be none, and its acknowledgement be lost for good
        newest = self._queues.newest(header.topic, lite)
        if newest is None or not 0 <= header.offset < newest.end:
            raise Refused(f"lite topic {lite} has no message {header.offset}", code=ResponseCode.NO_MESSAGE)
        return handle, self._progress.key(header.consumer_group, header.topic, lite)
