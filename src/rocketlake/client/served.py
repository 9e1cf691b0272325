"""Requests that brokers send to a client: members changed, offsets moved, tell what you do, consume this message, tell
how a transaction ended, a lite topic is another's.

Owns        the handlers of codes 39, 40, 220, 221, 307, 309 and 200073.
Must not know   how consumers and producers work (member.py says what they can do).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.pull import decode_messages
from rocketlake.client.calls.reply import read_reply
from rocketlake.client.member import ConsumerMember, DirectConsume, TransactionCheck
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.bodies.offset import ConsumerStatus, ResetOffsets
from rocketlake.protocol.headers.client import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    NotifyConsumersChangedHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
from rocketlake.protocol.headers.lite import NotifyUnsubscribeLiteHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

log = get_logger(__name__)
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class Served:
    """Answers brokers for the consumers and producers of one client instance."""

    def __init__(
        self,
        consumers: Mapping[str, ConsumerMember],
        producers: Mapping[str, TransactionCheck | None],
        reply_takers: Collection[Callable[[StoredMessage], bool]],
        clock: Clock,
        spawn: Spawn,
    ) -> None:
        """Consumers and producers by group. None: a producer that sends no transactions.

        `reply_takers`: one of them takes an answer and returns True; if none does, the answer is dropped.
        """
        self._consumers = consumers
        self._producers = producers
        self._reply_takers = reply_takers
        self._clock = clock
        self._rare = RareWarnings(log, clock=clock)
        self._spawn = spawn

    def handlers(self) -> dict[int, Handler]:
        """Handlers by request code."""
        return {
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._take_reply,
            RequestCode.NOTIFY_UNSUBSCRIBE_LITE: self._lite_taken,
        }

    def _check_transaction(self, request: Request) -> Reply:
        question = request.header(CheckTransactionHeader)
        message = decode_messages(request.body, None, request.address)[0]
        message.broker_name = question.target_broker or ""
        group = message.properties.get(names.PRODUCER_GROUP, "")
        check = self._producers.get(group)
        if check is None:
            log.warning("broker %s asks about a transaction of group %s, which is not here", request.address, group)
        else:
            check(question, message, request.asker.send)
        return Reply()

    def _take_reply(self, request: Request) -> Reply:
        answer = read_reply(request, now_ms=self._clock.now_ms())
        if not any(take(answer) for take in self._reply_takers):
            # A request that was stored twice has two answers; a late one comes when its asker has gone on.
            self._rare.info("dropped", "answer %s is dropped: no request waits for it", answer.message_id)
        return Reply()

    def _members_changed(self, request: Request) -> Reply:
        member = self._consumers.get(request.header(NotifyConsumersChangedHeader).consumer_group)
        if member is not None:
            member.rebalance_soon()
        return Reply()

    def _lite_taken(self, request: Request) -> Reply:
        header = request.header(NotifyUnsubscribeLiteHeader)
        member = self._consumers.get(header.consumer_group)
        if member is not None:
            member.lite_taken(header.lite_topic)
        return Reply()

    def _reset_offset(self, request: Request) -> Reply:
        header = request.header(ResetOffsetHeader)
        member = self._consumers.get(header.group)
        if member is None:
            return _not_here(header.group)
        offsets = ResetOffsets.decode(request.body).offsets
        log.warning("an operator moves group %s in topic %s: %s", header.group, header.topic, offsets)

        async def reset() -> None:
            await member.reset_offsets(header.topic, offsets)

        self._spawn("reset offsets", reset())
        return Reply()

    def _status(self, request: Request) -> Reply:
        header = request.header(ConsumerStatusHeader)
        member = self._consumers.get(header.group)
        if member is None:
            return _not_here(header.group)
        return Reply(body=ConsumerStatus(member.offsets(header.topic)).encode())

    def _running_info(self, request: Request) -> Reply:
        header = request.header(RunningInfoHeader)
        member = self._consumers.get(header.consumer_group)
        if member is None:
            return _not_here(header.consumer_group)
        return Reply(body=member.running_info().encode())

    def _consume_directly(self, request: Request) -> Reply | Held:
        header = request.header(ConsumeDirectlyHeader)
        member = self._consumers.get(header.consumer_group)
        if member is None:
            return _not_here(header.consumer_group)
        if member.consume_directly is None:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"group {header.consumer_group} polls, it has no listener")
        message = decode_messages(request.body, None, request.address)[0]
        message.broker_name = header.broker_name or ""
        self._spawn("consume directly", self._consume(request, member.consume_directly, message))
        return HELD

    async def _consume(self, request: Request, consume: DirectConsume, message: StoredMessage) -> None:
        try:
            result = await consume(message)
        except RocketLakeError as error:
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=str(error)))
        else:
            request.answer(Reply(body=result.encode()))


def _not_here(group: str) -> Reply:
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"consumer group {group} is not in this client")
