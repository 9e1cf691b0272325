"""SEND_REPLY_MESSAGE, SEND_REPLY_MESSAGE_V2: a consumer answers the message of a producer that waits.

Owns        the order of the steps: the rights, the client that asked, its word that it has the answer, the store.
Must not know   what a client does with an answer, how a message is stored.

Departure from RocketMQ 5.5: an answer that its client did not take is not stored. Apache stores it, says that it
failed, and another broker stores it again when the consumer tries there.

Source: docs/concepts/request_reply.md.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.rights.send import SendRights
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import (
    PushReplyHeader,
    SendHeader,
    SendReplyHeader,
    host_text,
    read_send_header,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["SendReply"]

_log = get_logger(__name__)

_NOT_STORED = "0"
"""The message id of an answer that was handed on and is not stored, as in RocketMQ."""


class SendReply:
    """Hands answers on to the clients that asked."""

    def __init__(
        self,
        config: LiveConfig,
        rights: SendRights,
        producers: ProducerTable,
        push: Push,
        store: Handler,
        *,
        store_address: Callable[[], tuple[str, int]],
        clock: Clock,
    ) -> None:
        """`store`: serves the request as an ordinary send; it refuses when this broker is no master any more."""
        self._config = config
        self._rights = rights
        self._producers = producers
        self._push = push
        self._store = store
        self._store_address = store_address
        self._clock = clock
        self._under_way = 0
        """Answers that wait for the word of their client."""
        self._warnings = RareWarnings(_log, clock=clock)

    def send(self, request: Request) -> Reply | Held:
        """Serve one answer. It succeeds when the client that asked has it."""
        header = read_send_header(request.command)
        self._rights.check(header.topic)
        properties = property_text.decode((header.properties or "").encode())
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if not client_id:
            raise RemoteError(
                f"the answer to {header.topic} does not say to whom (property {names.REPLY_TO_CLIENT})",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="make the answer from the message that asks: reply_to(message, body)",
            )
        member = self._producers.client(client_id)
        if member is None:
            raise RemoteError(
                f"push reply message fail, channel of <{client_id}> not found.", code=ResponseCode.SYSTEM_ERROR
            )
        if self._under_way >= self._config.now.waiting_replies_max:
            remark = f"{self._under_way} answers wait for their clients (replyThreadPoolQueueCapacity)"
            return Reply(ResponseCode.SYSTEM_BUSY, remark=f"[OVERLOAD]system busy, start flow control: {remark}")
        properties[names.PUSH_REPLY_TIME] = str(self._clock.now_ms())
        command = Command.request(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._pushed(request, header, properties), request.command.body
        )
        self._under_way += 1
        self._push.hand_on(member.asker, command, lambda failure: self._handed_on(request, header, failure))
        return HELD

    def _pushed(self, request: Request, header: SendHeader, properties: dict[str, str]) -> PushReplyHeader:
        return PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=property_text.encode(properties).decode(),
            reconsume_times=header.reconsume_times or 0,
            unit_mode=bool(header.unit_mode),
            born_host=host_text(request.asker.remote),
            store_host=host_text(self._store_address()),
            store_timestamp=self._clock.now_ms(),
        )

    def _handed_on(self, request: Request, header: SendHeader, failure: str) -> None:
        """The client has it, or `failure` says why not."""
        self._under_way -= 1
        if failure:
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"push reply message fail: {failure}"))
            return
        if self._config.now.store_replies:
            stored = run_handler(self._store, request)
            if stored is HELD or stored.code == ResponseCode.SUCCESS:
                if stored is not HELD:
                    request.answer(stored)
                return
            # The client has the answer, so this is no failure: the consumer would send it once more.
            self._warnings.warn(
                "store", "an answer to %s was handed on and not stored: %s", header.topic, stored.remark
            )
        request.answer(
            Reply(header=SendReplyHeader(msg_id=_NOT_STORED, queue_id=max(0, header.queue_id), queue_offset=0))
        )
