"""ReceiveMessage: pops messages for a client, and waits for them if there are none.

Owns        how long a receive waits, which broker it asks, the pop, what becomes of messages that nobody takes.
Must not know   how receives wait (waiting.py), handles and messages of gRPC (convert/).

Messages popped for a client that goes away in that moment are given back, without counting a try.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.pop import BORN_BY_BROKER
from rocketlake.client.calls.records import Found, read_records
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.lite import PopLiteHeader, PopLiteReplyHeader
from rocketlake.protocol.headers.pop import PopHeader, PopReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.receipts import Receipt, lite_receipts, receipts, tries
from rocketlake.proxy.convert.refusal import Refused, status
from rocketlake.proxy.convert.taken import Taken, plainly_taken, taken
from rocketlake.proxy.convert.times import ms_of, timestamp
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.services.received import RETURNED_MS, Received
from rocketlake.proxy.services.renewals import FIRST_INVISIBLE_MS, Renewals
from rocketlake.proxy.services.waiting import LineKey, WaitingLines
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Receives"]

_log: Final = get_logger(__name__)

_MESSAGES_MAX: Final = 32
_POLL_MS_MIN: Final = 5000
_POLL_MS_MAX: Final = 20_000
_ANSWER_MS: Final = 3000
"""A broker's answer may come so much later than it was to come."""
_RESERVE_MS: Final = 100
"""The answer is on its way to the client so long before the deadline of the call."""
_NOTHING: Final = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND)
_TYPES: Final = {v2.FilterType.FILTER_TYPE_UNSPECIFIED: "TAG", v2.FilterType.TAG: "TAG", v2.FilterType.SQL: "SQL92"}


@dataclass(frozen=True, slots=True)
class _Receive:
    """What one receive asks for."""

    topic: str
    group: str
    broker_name: str
    count: int
    expression: str
    expression_type: str
    invisible_ms: int
    attempt_id: str | None
    in_order: bool
    retries_max: int
    ends: float
    """Monotonic time at which the answer must be on its way."""
    lite_client: str = ""
    """The client, if it consumes lite topics: the topic is their parent then, and the pop waits at the broker."""

    @property
    def line(self) -> LineKey:
        """Where it waits."""
        attempt_id = self.attempt_id if self.in_order else None
        words = self.broker_name, self.topic, self.group, self.expression_type, self.expression
        return LineKey(*words, self.in_order, attempt_id)


class Receives:
    """Pops for clients."""

    def __init__(
        self,
        cluster: Cluster,
        received: Received,
        renewals: Renewals,
        limits: Callable[[], Limits],
        clock: Clock,
        spawn: Callable[..., Any],
        *,
        is_lite: Callable[[str], bool],
    ) -> None:
        """`is_lite`: says if this client consumes lite topics."""
        self._cluster = cluster
        self._received = received
        self._renewals = renewals
        self._limits = limits
        self._clock = clock
        self._spawn = spawn
        self._is_lite = is_lite
        self._turn = itertools.count()
        self._warnings = RareWarnings(_log, clock=clock)
        self.lines = WaitingLines[_Receive, Taken](cluster, self._pop_now, self._give_back, clock, spawn)

    def leave(self) -> None:
        """The proxy stops: receives that wait are answered."""
        self.lines.leave()

    async def receive(self, caller: Caller, request: Any) -> None:
        """ReceiveMessage. Its stream: the status, the messages, the time."""
        asked = await self._asked(caller, request)
        found = await self._pop(asked)
        left_seconds = asked.ends - self._clock.monotonic()
        if not found and not asked.lite_client and left_seconds > 0 and not caller.call.is_draining:
            found = await self.lines.wait(asked, left_seconds)
        call = caller.call
        if call.is_over:
            self._give_back(asked, found)
            return
        code = v2.Code.OK if found else v2.Code.MESSAGE_NOT_FOUND
        if request.auto_renew:
            self._renewals.hold(caller.client_id, asked.topic, asked.group, [each.receipt for each in found])
        head = _bytes(status=status(code, "" if found else "no new message"))
        tail = _bytes(delivery_timestamp=timestamp(self._clock.now_ms()))
        call.answer(head, *[each.response for each in found], tail)

    async def _asked(self, caller: Caller, request: Any) -> _Receive:
        group, topic = group_of(request.group), topic_of(request.message_queue.topic)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        if request.batch_size < 1:
            raise Refused(v2.Code.BAD_REQUEST, "batch_size is at least 1")
        if request.auto_renew:
            invisible_ms = FIRST_INVISIBLE_MS
        else:
            invisible_ms = ms_of(request.invisible_duration)
            self._limits().check_invisible(invisible_ms, is_new=True)
        settings = await self._cluster.group(group)
        brokers = sorted({queue.broker_name for queue in await self._cluster.to_read(topic)})
        named = request.message_queue.broker.name
        if named and named not in brokers:
            raise Refused(v2.Code.BAD_REQUEST, f"broker {named} serves no reader of topic {topic}")
        return _Receive(
            topic,
            group,
            named or brokers[next(self._turn) % len(brokers)],
            min(request.batch_size, _MESSAGES_MAX),
            request.filter_expression.expression or "*",
            _TYPES.get(request.filter_expression.type, "TAG"),
            invisible_ms,
            request.attempt_id or None,
            settings.consume_message_orderly,
            settings.retry_max_times,
            self._ends(caller, request),
            caller.client_id if self._is_lite(caller.client_id) else "",
        )

    def _ends(self, caller: Caller, request: Any) -> float:
        left_ms = caller.remaining_ms
        if request.HasField("long_polling_timeout"):
            poll_ms = ms_of(request.long_polling_timeout)
        else:
            poll_ms = int(left_ms * 0.8)
        poll_ms = max(_POLL_MS_MIN, min(poll_ms, _POLL_MS_MAX))
        if poll_ms > left_ms - _RESERVE_MS:
            if left_ms < _POLL_MS_MIN:
                raise Refused(v2.Code.ILLEGAL_POLLING_TIME, f"a receive needs {_POLL_MS_MIN} ms until its deadline")
            poll_ms = int(left_ms) - _RESERVE_MS
        return self._clock.monotonic() + poll_ms / 1000

    # -- pops ----------------------------------------------------------------------------------------------------------

    async def _pop(self, asked: _Receive) -> list[Taken]:
        """Pop now. A call that ends meanwhile does not end the pop: what it took is given back."""
        popping = self._spawn("pop", self._pop_now(asked))
        try:
            found: list[Taken] = await asyncio.shield(popping)
        except asyncio.CancelledError:
            popping.add_done_callback(lambda done: self._give_back_late(asked, done))
            raise
        return found

    async def _pop_now(self, asked: _Receive) -> list[Taken]:
        if asked.lite_client:
            return await self._pop_lite(asked)

        def make() -> Command:
            return Command.request(
                RequestCode.POP_MESSAGE,
                PopHeader(
                    consumer_group=asked.group,
                    topic=asked.topic,
                    queue_id=ANY_QUEUE,
                    max_msg_nums=asked.count,
                    invisible_time=asked.invisible_ms,
                    poll_time=0,
                    born_time=BORN_BY_BROKER,
                    init_mode=1,
                    exp=asked.expression,
                    exp_type=asked.expression_type,
                    order=asked.in_order,
                    attempt_id=asked.attempt_id,
                ),
            )

        answer = await self._cluster.ask_master(
            asked.topic, asked.broker_name, make, _ANSWER_MS, accept=(ResponseCode.SUCCESS, *_NOTHING)
        )
        if answer.code != ResponseCode.SUCCESS:
            return []
        header, records = answer.header(PopReplyHeader), answer.body_bytes
        names = asked.topic, asked.broker_name
        plain = (
            None if asked.in_order else plainly_taken(records, header, *names, asked.invisible_ms, asked.retries_max)
        )
        return list(plain) if plain is not None else self._read_all(asked, header, records)

    async def _pop_lite(self, asked: _Receive) -> list[Taken]:
        """Pop lite messages; the broker answers when there are some, or when the time is up."""
        poll_ms = max(0, int((asked.ends - self._clock.monotonic()) * 1000))

        def make() -> Command:
            header = PopLiteHeader(
                client_id=asked.lite_client,
                consumer_group=asked.group,
                topic=asked.topic,
                max_msg_num=asked.count,
                invisible_time=asked.invisible_ms,
                poll_time=poll_ms,
                born_time=BORN_BY_BROKER,
                attempt_id=asked.attempt_id,
            )
            return Command.request(RequestCode.POP_LITE_MESSAGE, header)

        answer = await self._cluster.ask_master(
            asked.topic, asked.broker_name, make, poll_ms + _ANSWER_MS, accept=(ResponseCode.SUCCESS, *_NOTHING)
        )
        if answer.code != ResponseCode.SUCCESS:
            return []
        read = self._read(asked, answer.body_bytes)
        damaged = [record.message for record in read.damaged]
        found = []
        for message, receipt in lite_receipts(answer.header(PopLiteReplyHeader), read.in_order(), asked.broker_name):
            if message in damaged or message.reconsume_times > asked.retries_max:
                self._spawn("dead letter", self._bury(asked, message, receipt))
            else:
                found.append(taken(message, receipt, asked.invisible_ms))
        return found

    def _read_all(self, asked: _Receive, header: PopReplyHeader, records: bytes) -> list[Taken]:
        read = self._read(asked, records)
        messages, damaged = read.messages, [record.message for record in read.damaged if record.message is not None]
        for message, receipt in zip(damaged, receipts(header, damaged, asked.broker_name), strict=True):
            self._spawn("damaged", self._bury(asked, message, receipt))
        handles = receipts(header, messages, asked.broker_name)
        for message, count in zip(messages, tries(header, messages), strict=True):
            message.topic, message.reconsume_times = asked.topic, count
        found = []
        for message, receipt in zip(messages, handles, strict=True):
            if message.reconsume_times > asked.retries_max:
                self._spawn("dead letter", self._bury(asked, message, receipt))
            else:
                found.append(taken(message, receipt, asked.invisible_ms))
        return found

    def _read(self, asked: _Receive, body: bytes) -> Found:
        """The messages of an answer, their bodies as stored, and the damaged ones: each of these costs itself only."""
        messages = decode_records(body, broker_name=asked.broker_name, decompress=False)
        if sum([message.store_size for message in messages]) == len(body):
            return Found(messages, [])
        found = read_records(body, MessageQueue(asked.topic, asked.broker_name, ANY_QUEUE))
        for record in found.damaged:
            what = "a message of topic %s at queue offset %d cannot be read, it becomes a dead letter of %s: %s"
            self._warnings.warn(asked.topic, what, asked.topic, record.offset, asked.group, record.reason)
        return found

    async def _bury(self, asked: _Receive, message: StoredMessage, receipt: Receipt) -> None:
        try:
            await self._received.bury(asked.topic, asked.group, receipt, message.message_id)
        except RocketLakeError as error:
            self._warnings.warn("dead letter", "a message is not among the dead letters yet, it comes again: %s", error)

    # -- messages that nobody takes ------------------------------------------------------------------------------------

    def _give_back_late(self, asked: _Receive, popped: asyncio.Task[list[Taken]]) -> None:
        if not popped.cancelled() and popped.exception() is None:
            self._give_back(asked, popped.result())

    def _give_back(self, asked: _Receive, found: list[Taken]) -> None:
        for each in found:
            self._spawn("give back", self._give_one_back(asked, each.receipt))

    async def _give_one_back(self, asked: _Receive, receipt: Receipt) -> None:
        try:
            await self._received.change(asked.topic, asked.group, receipt, RETURNED_MS, suspend=True)
        except RocketLakeError as error:
            self._warnings.warn("give back", "a message is not given back, it comes when its time is over: %s", error)


def _bytes(**content: Any) -> bytes:
    response: bytes = v2.ReceiveMessageResponse(**content).SerializeToString()
    return response
