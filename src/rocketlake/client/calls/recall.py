"""RECALL_MESSAGE: take back a message that waits for its time.

Owns        the request, the meaning of its answer.
Must not know   how the broker's master is found, repeats.
"""

from __future__ import annotations

from rocketlake.client.calls.answer import refusal
from rocketlake.model.message_id import RecallHandle
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import RecallHeader, RecallReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["recall_request", "recalled"]

_NOT_SAFE = "the recall is stored, but not as safe as the broker asks: recall again, which changes nothing else"
_HINTS: dict[int, str] = {
    ResponseCode.ILLEGAL_OPERATION: "recall a message while it waits: from one tick (timerPrecisionMs, 1 s) before its"
    " time on it is too late",
    ResponseCode.NO_PERMISSION: "set recallMessageEnable=true at the broker, which Apache's has not by default",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "use a broker that can recall: RocketLake, or RocketMQ 5.3.2 and later",
    ResponseCode.FLUSH_DISK_TIMEOUT: _NOT_SAFE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: _NOT_SAFE,
    ResponseCode.SLAVE_NOT_AVAILABLE: _NOT_SAFE,
}


def recall_request(group: str, handle: RecallHandle, text: str) -> Command:
    """The request; `text`: the handle as the broker gave it."""
    header = RecallHeader(
        producer_group=group, topic=handle.topic, recall_handle=text, target_broker=handle.broker_name
    )
    return Command.request(RequestCode.RECALL_MESSAGE, header)


def recalled(answer: Command, address: str) -> str:
    """The id of the message that will not come. Raises RemoteError for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        raise refusal(answer, RequestCode.RECALL_MESSAGE, address, _HINTS)
    return answer.header(RecallReplyHeader).msg_id
