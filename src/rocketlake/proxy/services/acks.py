"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what becomes of received messages.

Owns        the status of each entry.
Must not know   how brokers are asked (received.py), which receipt counts by now (renewals.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.net.client import some_at_once
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import ASK_MS
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.refusal import Refused, common_status, status, status_of
from rocketlake.proxy.convert.times import ms_of
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.services.received import Received
from rocketlake.proxy.services.renewals import Renewals
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Acks"]


class Acks:
    """Answers clients about messages that they have received."""

    def __init__(self, received: Received, renewals: Renewals, limits: Callable[[], Limits]) -> None:
        self._received = received
        self._renewals = renewals
        self._limits = limits

    async def acknowledge(self, caller: Caller, request: Any) -> Any:
        """AckMessage."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        if not request.entries:
            raise Refused(v2.Code.BAD_REQUEST, "an ack without an entry")
        entries = await some_at_once(partial(self._entry, caller, topic, group), request.entries)
        return v2.AckMessageResponse(status=common_status(entry.status for entry in entries), entries=entries)

    async def _entry(self, caller: Caller, topic: str, group: str, entry: Any) -> Any:
        try:
            async with self._renewals.settle(entry.receipt_handle) as receipt:
                await self._received.ack(topic, group, receipt, min(ASK_MS, caller.remaining_ms))
            told = status(v2.Code.OK)
        except RocketLakeError as error:
            told = _told(error)
        return v2.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=told)

    async def change_invisible(self, caller: Caller, request: Any) -> Any:
        """ChangeInvisibleDuration."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB))  # and not the topic, as Apache's proxy
        invisible_ms = ms_of(request.invisible_duration)
        self._limits().check_invisible(invisible_ms, is_new=False)
        try:
            async with self._renewals.settle(request.receipt_handle) as receipt:
                changed = await self._received.change(topic, group, receipt, invisible_ms, suspend=request.suspend)
        except RocketLakeError as error:
            return v2.ChangeInvisibleDurationResponse(status=_told(error))
        return v2.ChangeInvisibleDurationResponse(status=status(v2.Code.OK), receipt_handle=str(changed))

    async def forward_to_dead_letters(self, caller: Caller, request: Any) -> Any:
        """ForwardMessageToDeadLetterQueue: a copy for the group's dead letters, then the acknowledgement."""
        group, topic = group_of(request.group), topic_of(request.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        async with self._renewals.settle(request.receipt_handle) as receipt:
            await self._received.bury(topic, group, receipt, request.message_id)
        return v2.ForwardMessageToDeadLetterQueueResponse(status=status(v2.Code.OK))


def _told(error: RocketLakeError) -> Any:
    """The broker refuses a handle that names no message of its queue: it is not valid any more."""
    if isinstance(error, RemoteError) and error.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE):
        return status(v2.Code.INVALID_RECEIPT_HANDLE, error.remark)
    return status_of(error)
