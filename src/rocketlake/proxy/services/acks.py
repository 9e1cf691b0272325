"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what becomes of received messages.

Owns        these requests to brokers, the status of each entry.
Must not know   the text of handles (convert/receipts.py); receives: a handle says all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pop import AckHeader, ChangeInvisibleHeader, ChangeInvisibleReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.end import dead_letter
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.convert.refusal import Refused, common_status, status, status_of
from rocketlake.proxy.convert.times import ms_of
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Acks"]


class Acks:
    """Asks brokers about received messages."""

    def __init__(self, cluster: Cluster, limits: Callable[[], Limits]) -> None:
        self._cluster = cluster
        self._limits = limits

    async def acknowledge(self, caller: Caller, request: Any) -> Any:
        """AckMessage."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        if not request.entries:
            raise Refused(v2.Code.BAD_REQUEST, "an ack without an entry")
        entries = await asyncio.gather(*[self._entry(caller, topic, group, entry) for entry in request.entries])
        return v2.AckMessageResponse(status=common_status(entry.status for entry in entries), entries=entries)

    async def _entry(self, caller: Caller, topic: str, group: str, entry: Any) -> Any:
        try:
            receipt = Receipt.parse(entry.receipt_handle)
            await self._ack(topic, group, receipt, min(ASK_MS, caller.remaining_ms))
            told = status(v2.Code.OK)
        except RocketLakeError as error:
            told = _told(error)
        return v2.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=told)

    async def _ack(self, topic: str, group: str, receipt: Receipt, timeout_ms: float) -> None:
        handle = receipt.handle
        header = AckHeader(
            consumer_group=group,
            topic=receipt.topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.offset,
        )
        await self._cluster.ask_master(
            topic, handle.broker_name, lambda: Command.request(RequestCode.ACK_MESSAGE, header), timeout_ms
        )

    async def change_invisible(self, caller: Caller, request: Any) -> Any:
        """ChangeInvisibleDuration."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB))
        invisible_ms = ms_of(request.invisible_duration)
        self._limits().check_invisible(invisible_ms, is_new=False)
        receipt = Receipt.parse(request.receipt_handle)
        try:
            changed = await self.change(topic, group, receipt, invisible_ms, suspend=request.suspend)
        except RocketLakeError as error:
            return v2.ChangeInvisibleDurationResponse(status=_told(error))
        return v2.ChangeInvisibleDurationResponse(status=status(v2.Code.OK), receipt_handle=str(changed))

    async def change(self, topic: str, group: str, receipt: Receipt, invisible_ms: int, *, suspend: bool) -> Receipt:
        """Have the message come again after this time. Returns its new handle."""
        handle = receipt.handle
        header = ChangeInvisibleHeader(
            consumer_group=group,
            topic=receipt.topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.offset,
            invisible_time=invisible_ms,
            suspend=suspend,
        )
        answer = await self._cluster.ask_master(
            topic,
            handle.broker_name,
            lambda: Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header),
            ASK_MS,
        )
        return receipt.renewed(answer.header(ChangeInvisibleReplyHeader))

    async def forward_to_dead_letters(self, caller: Caller, request: Any) -> Any:
        """ForwardMessageToDeadLetterQueue: a copy for the group's dead letters, then the acknowledgement."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        await self.bury(topic, group, Receipt.parse(request.receipt_handle), request.message_id)
        return v2.ForwardMessageToDeadLetterQueueResponse(status=status(v2.Code.OK))

    async def bury(self, topic: str, group: str, receipt: Receipt, message_id: str) -> None:
        """Make the message a dead letter of its group; then it is done with."""
        header = dead_letter(receipt, group, topic, message_id)
        await self._cluster.ask_master(
            topic,
            receipt.handle.broker_name,
            lambda: Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header),
            ASK_MS,
        )
        await self._ack(topic, group, receipt, ASK_MS)


def _told(error: RocketLakeError) -> Any:
    """The broker refuses a handle that names no message of its queue: it is not valid any more."""
    if isinstance(error, RemoteError) and error.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE):
        return status(v2.Code.INVALID_RECEIPT_HANDLE, error.remark)
    return status_of(error)
