"""SendMessage: each message becomes a send request to a broker.

Owns        the checks in RocketMQ's order, the choice of a queue, the status of each entry.
Must not know   how properties are made (convert/outgoing.py), how a broker is reached (cluster.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.java.consistent_hash import bucket_of
from rocketlake.base.java.java_compat import string_hash
from rocketlake.client.calls.send import Outgoing, Sender, SendResult, SendStatus, result_of
from rocketlake.codec import property_text
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import some_at_once
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.end import Half
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.outgoing import check, properties_of, sys_flag_of, topic_of_all, type_of
from rocketlake.proxy.convert.refusal import Refused, common_status, status, status_of
from rocketlake.proxy.convert.times import ms_of
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Sends", "entry_of"]

_SEND_MS: Final = 3000
_SENDERS_MAX: Final = 4096
_STATUS: Final = {
    SendStatus.OK: v2.Code.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: v2.Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: v2.Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: v2.Code.HA_NOT_AVAILABLE,
}


class Sends:
    """Sends messages to brokers."""

    def __init__(self, cluster: Cluster, clock: Clock, limits: Callable[[], Limits], spawn: Callable[..., Any]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limits = limits
        self._spawn = spawn
        self._senders: dict[str, Sender] = {}
        self._turn = itertools.count()

    async def send(self, caller: Caller, request: Any) -> Any:
        """SendMessage."""
        topic = topic_of_all(request.messages)
        caller.need(on_topic(topic, Action.PUB))
        for message in request.messages:
            check(message, self._limits(), self._clock.now_ms())
        queues = await self._cluster.to_publish(topic)
        types = await self._cluster.types(topic)
        for message in request.messages:
            kind = type_of(message)
            if v2.MessageType.MESSAGE_TYPE_UNSPECIFIED not in types and kind not in types:
                raise Refused(
                    v2.Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                    f"a message of type {v2.MessageType(kind).name} does not fit topic {topic}",
                )
        timeout_ms = max(1.0, min(_SEND_MS, caller.remaining_ms))
        send = partial(self._entry, caller, topic, queues, timeout_ms)
        if len(request.messages) > 1:
            entries = await some_at_once(send, request.messages)
        else:
            entries = [await send(request.messages[0])]
        return v2.SendMessageResponse(status=common_status(entry.status for entry in entries), entries=entries)

    async def _entry(
        self, caller: Caller, topic: str, queues: tuple[MessageQueue, ...], timeout_ms: float, message: Any
    ) -> Any:
        queue = self.queue_of(message.system_properties.message_group or message.system_properties.lite_topic, queues)
        try:
            result = await self._send(caller, topic, message, queue, timeout_ms)
        except RocketLakeError as error:
            if isinstance(error, LinkError):
                self.doubt(topic)
            return v2.SendResultEntry(status=status_of(error))
        entry = entry_of(result)
        if type_of(message) == v2.MessageType.TRANSACTION:
            physical_offset = parse_offset_message_id(result.offset_message_id)[2]
            entry.transaction_id = str(
                Half(result.queue.broker_name, result.queue_offset, physical_offset, result.transaction_id)
            )
        return entry

    async def _send(
        self, caller: Caller, topic: str, message: Any, queue: MessageQueue, timeout_ms: float
    ) -> SendResult:
        properties = properties_of(message, caller.call.link.address)
        outgoing = Outgoing(
            topic,
            message.system_properties.message_id,
            message.body,
            property_text.encode(properties),
            sys_flag=sys_flag_of(message),
        )
        address = self._cluster.master(queue.broker_name)
        born = message.system_properties
        born_ms = ms_of(born.born_timestamp) if born.HasField("born_timestamp") else self._clock.now_ms()
        command = self.sender(topic).command(outgoing, queue, born_ms)
        answer = await self._cluster.net.invoke(address, command, timeout_ms)
        return result_of(answer, outgoing, queue, address)

    def doubt(self, topic: str) -> None:
        """A broker of this topic failed."""
        self._spawn("doubt", self._cluster.doubt(topic))

    def sender(self, topic: str) -> Sender:
        """What writes requests for this topic."""
        sender = self._senders.get(topic)
        if sender is None:
            if len(self._senders) >= _SENDERS_MAX:
                self._senders.clear()
            sender = self._senders[topic] = Sender(topic)  # a producer of gRPC has no group: the topic stands for it
        return sender

    def queue_of(self, group: str, queues: tuple[MessageQueue, ...]) -> MessageQueue:
        """The queue of a message group, or of a lite topic; without one each in turn."""
        if group:
            return queues[bucket_of(string_hash(group), len(queues))]
        return queues[next(self._turn) % len(queues)]


def entry_of(result: SendResult) -> Any:
    """The entry of an answer."""
    return v2.SendResultEntry(
        status=status(_STATUS[result.status]),
        message_id=result.message_id,
        offset=result.queue_offset,
        transaction_id=result.transaction_id,
        recall_handle=result.recall_handle,
    )
