"""An answer to a request: made from the request, and read from the broker that hands it on.

Owns        the properties that tie an answer to its request, reading PUSH_REPLY_MESSAGE_TO_CLIENT.
Must not know   who waits for an answer (client/requests.py), how an answer is sent (send.py).

Source: Java MessageUtil.createReplyMessage, ClientRemotingProcessor.receiveReplyMessage.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_kind
from rocketlake.client.calls.send import REPLY_TYPE
from rocketlake.codec import compression, property_text
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.names import reply_topic
from rocketlake.net.request import Request
from rocketlake.protocol.headers.send import PushReplyHeader, parse_host_text

__all__ = ["is_request", "read_reply", "reply_to"]

_TIES = (names.CORRELATION_ID, names.REPLY_TO_CLIENT)
_KEPT = (names.TAGS, names.KEYS)


def is_request(message: Message) -> bool:
    """True if a producer waits for an answer to this message, or waited."""
    return all(message.properties.get(name) for name in _TIES)


def reply_to(request: StoredMessage, answer: bytes | bytearray | memoryview | Message) -> Message:
    """The answer to a request, to be sent with any producer: `await producer.send(reply_to(request, b"42"))`.

    `answer` is its body, or a message whose body, flag, tag, keys and own properties it takes, perhaps the request
    itself; the topic is that of the cluster's answers. UsageError for a message that asks for no answer (Java's code
    10007).
    """
    check_kind("a request", request, StoredMessage, hint="give the message that the listener got")
    cluster = request.properties.get(names.CLUSTER)
    if not cluster or not is_request(request):
        raise UsageError(
            f"message {request.message_id} of topic {request.topic!r} asks for no answer",
            hint="answer messages that a producer has sent with `request()`",
        )
    own = answer if isinstance(answer, Message) else Message("", answer)
    ties = {name: request.properties[name] for name in (*_TIES, names.TTL) if name in request.properties}
    kept = {name: value for name, value in own.properties.items() if name in _KEPT or name not in names.RESERVED}
    properties = {**kept, **ties, names.MESSAGE_TYPE: REPLY_TYPE}
    return Message.with_properties(reply_topic(cluster), own.body, properties, flag=own.flag)


def read_reply(request: Request, *, now_ms: int) -> StoredMessage:
    """The answer that a broker hands on. Raises HeaderError, UsageError (an address), RecordError (its body)."""
    header = request.header(PushReplyHeader)
    body = request.body
    if header.sys_flag & sys_flag.COMPRESSED:
        body = compression.decompress(body, header.sys_flag)
    properties = property_text.decode((header.properties or "").encode())
    message = StoredMessage(
        header.topic,
        body,
        flag=header.flag,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_ms=header.born_timestamp,
        born_host=parse_host_text(header.born_host),
        store_ms=header.store_timestamp,
        store_host=parse_host_text(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )
    message.properties = {**properties, names.ARRIVE_TIME: str(now_ms)}
    return message
