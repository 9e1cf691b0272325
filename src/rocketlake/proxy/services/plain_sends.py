"""Plain sends: one message that needs no protobuf object, to a broker whose link is ready. Served without a task.

Owns        when a send is plain, its answer.
Must not know   the bytes of messages (convert/plain_messages.pyx), any rule: what is not plain, or cannot be sent at
            once, goes the ordinary way (sends.py), which is the truth.

All plain sends of a chunk are written in that turn of the loop, so they reach the broker as one chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.pure_import import has_kernel
from rocketlake.client.calls.send import Outgoing, SendResult, SendStatus, result_of
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.refusal import status_of
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.services.caller import Callers
from rocketlake.proxy.services.sends import Sends, entry_of
from rocketlake.proxy.v2 import messages as v2

if TYPE_CHECKING:
    from rocketlake.proxy.convert.plain_messages import PlainMessage, SendReader

__all__ = ["PlainSends"]

_KERNEL: Final = "rocketlake.proxy.convert.plain_messages"
_SEND_MS: Final = 3000


class PlainSends:
    """Serves SendMessage."""

    def __init__(
        self,
        cluster: Cluster,
        callers: Callers,
        sends: Sends,
        limits: Callable[[], Limits],
        clock: Clock,
        ordinary: Callable[[Call, bytes], object],
    ) -> None:
        """`ordinary`: serves a send that is not plain."""
        self._cluster = cluster
        self._callers = callers
        self._sends = sends
        self._limits = limits
        self._clock = clock
        self._ordinary = ordinary
        self._made_for: Limits | None = None
        self._reader: SendReader | None = None
        self._has_kernel = has_kernel(_KERNEL)

    def serve(self, call: Call, message: bytes) -> None:
        """See Method."""
        try:
            is_sent = self._has_kernel and self._begin(call, message)
        except RocketLakeError:  # the ordinary way says what is wrong
            is_sent = False
        if not is_sent:
            self._ordinary(call, message)

    def _begin(self, call: Call, message: bytes) -> bool:
        """Send it to its broker, if it is plain, allowed, and the broker's link is ready."""
        plain = self._read(message, call.link.address.encode())
        if plain is None or plain.type == v2.MessageType.TRANSACTION:
            return False
        topic = str(plain.topic, "utf-8", "replace")
        queues = self._cluster.known_queues(topic, plain.type)
        if not queues:
            return False
        caller = self._callers.of(call)
        caller.need(on_topic(topic, Action.PUB))
        if caller.remaining_ms <= 0:
            return False
        queue = self._sends.queue_of(plain.group.decode(), queues)
        address = self._cluster.master(queue.broker_name)
        outgoing = Outgoing(
            topic, plain.message_id.decode(), bytes(plain.body), plain.properties, sys_flag=plain.sys_flag
        )
        born_ms = plain.born_ms if plain.born_ms >= 0 else self._clock.now_ms()
        command = self._sends.sender(topic).command(outgoing, queue, born_ms)
        asked = self._cluster.net.start_now(address, command, min(_SEND_MS, caller.remaining_ms))
        if asked is None:
            return False
        asked.add_done_callback(partial(self._answered, call, message, outgoing, queue, address))
        return True

    def _read(self, message: bytes, peer: bytes) -> PlainMessage | None:
        limits = self._limits()
        if self._reader is None or limits != self._made_for:
            from rocketlake.proxy.convert.plain_messages import SendReader

            self._reader, self._made_for = SendReader(limits), limits
        return self._reader.read(message, peer, self._clock.now_ms())

    def _answered(
        self,
        call: Call,
        message: bytes,
        outgoing: Outgoing,
        queue: MessageQueue,
        address: str,
        asked: asyncio.Future[Command],
    ) -> None:
        try:
            answer = asked.result()
            if answer.code == ResponseCode.GO_AWAY:  # not stored: the ordinary way asks on a new link
                self._ordinary(call, message)
                return
            result = result_of(answer, outgoing, queue, address)
        except (RocketLakeError, asyncio.CancelledError) as error:
            if not isinstance(error, RemoteError):
                self._sends.doubt(outgoing.topic)
            entry = v2.SendResultEntry(status=status_of(error))
        else:
            if result.status is SendStatus.OK:
                call.answer(_answer_of(result))
                return
            entry = entry_of(result)
        call.refusal = v2.Code(entry.status.code).name
        call.answer(v2.SendMessageResponse(status=entry.status, entries=[entry]).SerializeToString())


def _answer_of(result: SendResult) -> bytes:
    from rocketlake.proxy.convert.plain_messages import send_answer

    return send_answer(
        result.message_id.encode(), result.queue_offset, result.transaction_id.encode(), result.recall_handle.encode()
    )
