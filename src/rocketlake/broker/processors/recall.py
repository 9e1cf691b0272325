"""RECALL_MESSAGE: a producer takes back a message that waits for its time.

Owns        the order of the checks, the message that takes the other one back, the answer.
Must not know   how the two meet (delay/timer.py).

Rules (RocketMQ's RecallMessageProcessor): the recall is a message itself. It waits in the timer wheel for the same
tick, and names the other one by its unique key. So it is as safe as any message, it may be sent twice, and one that
names no waiting message does nothing.

Departure: a recall that is stored, but not as safe as the broker's settings ask, is answered as a send is (10, 11, 12),
with `msgId`. Apache answers SUCCESS; a change of the master may lose the recall then.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.delay.parking import TimerRules
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.put_answer import CODE_OF, put_failure
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.host import encode_host
from rocketlake.model import property_names as names
from rocketlake.model.message_id import RecallHandle
from rocketlake.model.topic import Perm
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import RecallHeader, RecallReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage, PutStatus

__all__ = ["Recall"]

_TAG = "_RECALL_TAG_"
_BODY = b"0"


class Recall:
    """Takes recalls. The remarks are Apache's words."""

    def __init__(
        self,
        config: LiveConfig,
        topics: TopicTable,
        intake: Intake,
        rules: TimerRules,
        clock: Clock,
        *,
        store_address: Callable[[], tuple[str, int]],
    ) -> None:
        self._config = config
        self._topics = topics
        self._intake = intake
        self._rules = rules
        self._clock = clock
        self._store_address = store_address

    def recall(self, request: Request) -> Reply | Held:
        """Serve the request."""
        self._check_broker()
        header = request.header(RecallHeader)
        if header.topic not in self._topics:
            raise Refused(f"recall failed, the topic[{header.topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        handle = self._checked(header)
        message, properties = self._message(request, header, handle)
        result = self._intake.put(message, properties)

        def answer(status: PutStatus) -> Reply:
            if not status.is_stored:
                return put_failure(status, result)
            reply = RecallReplyHeader(msg_id=handle.message_id, region=self._config.now.region_id)
            return Reply(CODE_OF[status], reply, remark=None if status is PutStatus.OK else status.name)

        if self._intake.acks_at_once or not result.status.is_stored:
            return answer(result.status)
        self._intake.when_durable(result, properties, lambda status: request.answer(answer(status)))
        return HELD

    def _check_broker(self) -> None:
        config = self._config.now
        if not config.recall_enabled:
            raise Refused(
                "recall failed, operation is forbidden",
                code=ResponseCode.NO_PERMISSION,
                hint="set recallMessageEnable=true at the broker",
            )
        is_writeable = Perm.is_writeable(config.permission) or config.recall_when_not_writeable
        if self._clock.now_ms() < config.start_accept_send_ms or not is_writeable:
            raise Refused(
                "recall failed, broker service not available",
                code=ResponseCode.SERVICE_NOT_AVAILABLE,
                hint="look at startAcceptSendRequestTimeStamp, brokerPermission and allowRecallWhenBrokerNotWriteable",
            )

    def _checked(self, header: RecallHeader) -> RecallHandle:
        try:
            handle = RecallHandle.of_text(header.recall_handle)
        except UsageError as error:
            raise _illegal(error.what, error.hint) from None
        if handle.topic != header.topic:
            raise _illegal("recall failed, topic not match", f"name topic {handle.topic}, which the handle is of")
        if handle.broker_name != self._config.now.broker_name:
            hint = f"ask the master of {handle.broker_name}, which the handle is of"
            raise _illegal("recall failed, broker service not available", hint)
        if not 0 < handle.due_ms - self._clock.now_ms() < self._rules.delay_ms_max:
            hint = "recall a message earlier: from one tick (timerPrecisionMs) before its time on it is too late"
            raise _illegal("recall failed, timestamp invalid", hint)
        return handle

    def _message(
        self, request: Request, header: RecallHeader, handle: RecallHandle
    ) -> tuple[PutMessage, dict[str, str]]:
        now_ms = self._clock.now_ms()
        properties = {
            names.TAGS: _TAG,
            names.TIMER_DELETE_UNIQUE_KEY: handle.message_id,
            names.UNIQUE_KEY: handle.message_id,
            names.TIMER_DELIVER_MS: handle.due_text,
            names.BORN_TIMESTAMP: str(now_ms),
        }
        if header.producer_group:
            properties[names.PRODUCER_GROUP] = header.producer_group
        message = PutMessage(
            handle.topic,
            0,
            _BODY,
            born_ms=now_ms,
            born_host=encode_host(*request.asker.remote),
            store_host=encode_host(*self._store_address()),
        )
        return message, properties


def _illegal(what: str, hint: str) -> RemoteError:
    return Refused(what, code=ResponseCode.ILLEGAL_OPERATION, hint=hint)
