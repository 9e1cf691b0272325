"""PULL_MESSAGE, QUERY_MESSAGE, VIEW_MESSAGE_BY_ID: messages out of a broker.

Owns        the flags of a pull, the meaning of its codes, taking inner batches apart.
Must not know   positions, flow control.

Rule: an answer is a list of records as they lie in the broker's log. A record that does not decode is never left out in
silence. It is an error, or with `around_damage` an entry of `PullAnswer.damaged`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rocketlake.base.errors import ProtocolError
from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask, refusal
from rocketlake.client.calls.records import DamagedRecord, read_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import to_fields
from rocketlake.protocol.header_binary import encode_fields
from rocketlake.protocol.headers.pull import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullHeader,
    PullReplyHeader,
)
from rocketlake.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


class PullStatus(Enum):
    """The outcome of a pull."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MESSAGE = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


PULL_CODES = frozenset(status.value for status in PullStatus)
_PULL_CODE = int(RequestCode.PULL_MESSAGE)
_STATUSES: dict[int, PullStatus] = {int(status.value): status for status in PullStatus}


@dataclass(slots=True)
class PullAnswer:
    """One pull: where to go on (`next_offset`), what the queue holds, the messages (or the raw `body`).

    `damaged` are the records of the answer that are not among `messages` because they cannot be read.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0
    messages: list[StoredMessage] = field(default_factory=list)
    body: bytes = b""
    damaged: list[DamagedRecord] = field(default_factory=list)

    def is_deleted(self, asked: int) -> bool:
        """True when the offset `asked` lies before the oldest message that the broker keeps."""
        return asked < self.min_offset == self.next_offset


async def pull(
    net: NetClient,
    address: str,
    queue: MessageQueue,
    *,
    group: str,
    offset: int,
    subscription: Subscription,
    max_messages: int = 32,
    max_bytes: int = 256 * 1024,
    hold_ms: int = 0,
    commit: int = 0,
    lite: bool = False,
    decode: bool = True,
    around_damage: bool = False,
    timeout_ms: int = 30_000,
) -> PullAnswer:
    """Messages from `offset` on; the broker holds the request up to `hold_ms` while there is none.

    `lite` sends the subscription along: the broker then needs no heartbeat of a consumer. `commit` > 0 commits that
    offset first. With `decode` false the records stay in `body`. A record that cannot be read is a ProtocolError; with
    `around_damage` it is among `damaged`, and the others are read.
    """
    flags = PULL_COMMIT_OFFSET if commit > 0 else 0
    flags |= PULL_SUSPEND if hold_ms > 0 else 0
    flags |= PULL_SUBSCRIPTION if lite else 0
    header = PullHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=max_messages,
        sys_flag=flags,
        commit_offset=commit,
        suspend_timeout_millis=hold_ms,
        # A lite pull is complete in itself: version 0 asks the broker not to compare it with a heartbeat.
        sub_version=0 if lite else subscription.version,
        subscription=subscription.expression if lite else None,
        expression_type=subscription.expression_type,
        max_msg_bytes=max_bytes,
        target_broker=queue.broker_name,
    )
    # Not LITE_PULL_MESSAGE: brokers of 4.9 do not serve that code, and newer ones answer both codes alike.
    answer = await ask(net, address, Command.request(RequestCode.PULL_MESSAGE, header), timeout_ms, accept=PULL_CODES)
    reply = answer.header(PullReplyHeader)
    result = PullAnswer(
        PullStatus(ResponseCode(answer.code)),
        reply.next_begin_offset,
        reply.min_offset,
        reply.max_offset,
        reply.suggest_which_broker_id,
    )
    if result.status is PullStatus.FOUND:
        result.body = answer.body_bytes
        if around_damage:
            offsets = offset, result.next_offset
            found = read_records(result.body, queue, offsets, delta=reply.offset_delta or 0)
            result.messages, result.damaged = found.messages, found.damaged
            if found.ends_at is not None:
                result.next_offset = found.ends_at
        elif decode:
            result.messages = decode_messages(result.body, queue, address, delta=reply.offset_delta or 0)
    return result


class PreparedPulls:
    """Pulls of one reader that never wait and leave the records as bytes, like `pull` with `lite` and without `decode`.

    The requests for one queue differ in offset and number of messages only. The rest of the header is encoded once.
    """

    def __init__(self, net: NetClient, group: str, subscription: Subscription, max_bytes: int) -> None:
        self._net = net
        self._group = group
        self._subscription = subscription
        self._max_bytes = max_bytes
        self._fixed: dict[MessageQueue, bytes] = {}

    async def pull(
        self, address: str, queue: MessageQueue, offset: int, max_messages: int, timeout_ms: int
    ) -> PullAnswer:
        """Messages from `offset` on."""
        return self.outcome(
            await self._net.invoke(address, self.request(queue, offset, max_messages), timeout_ms), address
        )

    def request(self, queue: MessageQueue, offset: int, max_messages: int) -> Command:
        """The command that asks for messages from `offset` on."""
        fixed = self._fixed.get(queue) or self._fix(queue)
        return Command(
            _PULL_CODE, block=fixed + encode_fields({"queueOffset": str(offset), "maxMsgNums": str(max_messages)})
        )

    def outcome(self, answer: Command, address: str) -> PullAnswer:
        """The answer to such a command. Raises RemoteError."""
        status = _STATUSES.get(answer.code)
        if status is None:
            raise refusal(answer, _PULL_CODE, address)
        reply = answer.header(PullReplyHeader)
        body = answer.body_bytes if status is PullStatus.FOUND else b""
        return PullAnswer(status, reply.next_begin_offset, reply.min_offset, reply.max_offset, body=body)

    def _fix(self, queue: MessageQueue) -> bytes:
        header = PullHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=0,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=self._subscription.expression,
            expression_type=self._subscription.expression_type,
            max_msg_bytes=self._max_bytes,
            target_broker=queue.broker_name,
        )
        fields = to_fields(header)
        del fields["queueOffset"], fields["maxMsgNums"]
        self._fixed[queue] = encode_fields(fields)
        return self._fixed[queue]


async def query_messages(
    net: NetClient,
    address: str,
    topic: str,
    key: str,
    *,
    max_messages: int = 32,
    begin_ms: int = 0,
    end_ms: int = 2**63 - 1,
    unique: bool = False,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> list[StoredMessage]:
    """Messages with this key (`unique`: with this message id), stored between two times; [] when there is none."""
    header = QueryMessageHeader(
        topic=topic,
        key=key,
        max_num=max_messages,
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
        unique_key=unique,
    )
    command = Command.request(RequestCode.QUERY_MESSAGE, header)
    answer = await ask(net, address, command, timeout_ms, accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    return decode_messages(answer.body_bytes, None, address)


async def view_message(
    net: NetClient,
    address: str,
    physical_offset: int,
    *,
    topic: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> StoredMessage:
    """The message at this physical offset. Raises RemoteError when there is none."""
    header = ViewMessageHeader(offset=physical_offset, topic=topic)
    answer = await ask(net, address, Command.request(RequestCode.VIEW_MESSAGE_BY_ID, header), timeout_ms)
    return decode_messages(answer.body_bytes, None, address)[0]


def decode_messages(body: bytes, queue: MessageQueue | None, address: str, *, delta: int = 0) -> list[StoredMessage]:
    """Records back to back, each with its queue's broker name; inner batches become their messages.

    ProtocolError when one of them cannot be read.
    """
    found = read_records(body, queue, delta=delta)
    if found.damaged:
        first = found.damaged[0]
        what = f"a message at queue offset {first.offset} cannot be read: {first.reason}"
        where = f"{queue} at {address}" if queue else address
        raise ProtocolError(what, where=where, hint="look at the broker's store: the log file or the line is damaged")
    return found.messages
