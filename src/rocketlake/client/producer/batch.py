"""Many messages in one request: checks, splitting to size, the result of each message.

Owns        which messages may share a batch, the cut into parts of a size, the results that one answer gives for a
            part.
Must not know   sending.

Rules (RocketMQ): one topic, one WAIT flag, no delay, no retry topic, no lite topic; each message has its own unique
key; the batch is never compressed and must stay below the broker's message size. A message too large for a batch goes
as a single one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.base.pure_import import has_kernel
from rocketlake.client.calls.send import REPLY_TYPE, Outgoing, SendResult
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import batch_body, entry_text
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN, RecordError
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.model.names import RETRY_PREFIX

_KERNEL = "rocketlake.client.producer.batch_body"
_body: Callable[[list[Message], list[bytes], Sequence[str | None]], bytes] = (
    importlib.import_module(_KERNEL).batch_body if has_kernel(_KERNEL) else batch_body
)

TIMER_PROPERTIES = (names.DELAY, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One request: its bytes and the ids of its messages, in order."""

    outgoing: Outgoing
    message_ids: tuple[str, ...]


def check_batch(messages: Sequence[Message]) -> None:
    """Raises UsageError that names the first message that does not fit into this batch, and why."""
    if not messages:
        raise UsageError("the batch holds no message", hint="give it one message or more")
    first = messages[0]
    if first.topic.startswith(RETRY_PREFIX):
        raise UsageError(
            f"messages of retry topic {first.topic!r} cannot be sent as a batch", hint="send them one by one"
        )
    for number, message in enumerate(messages):
        where = f"message {number} of the batch"
        if message.topic != first.topic:
            what = f"it is for topic {message.topic!r}, the first one is for {first.topic!r}"
            raise UsageError(what, where=where, hint="make one batch per topic")
        if message.wait_store_ok != first.wait_store_ok:
            hint = "send messages with another wait_store_ok in a batch of their own"
            raise UsageError("its WAIT flag differs from that of the first message", where=where, hint=hint)
        if any(name in message.properties for name in TIMER_PROPERTIES):
            raise UsageError("the message is delayed", where=where, hint="send delayed messages one by one")
        if names.LITE_TOPIC in message.properties:
            raise UsageError("the message is of a lite topic", where=where, hint="send messages of these one by one")
        if message.properties.get(names.MESSAGE_TYPE) == REPLY_TYPE:
            raise UsageError("the message is an answer to a request", where=where, hint="send answers one by one")


def split(
    messages: Sequence[Message],
    make_key: Callable[[], str],
    prepare: Callable[[Message], Outgoing],
    *,
    bytes_max: int,
) -> Iterator[BatchPart]:
    """Cut the messages, in order, into parts of at most `bytes_max` encoded bytes.

    A message without a unique key gets one. A larger message is a part of its own, made by `prepare`: no batch. Raises
    UsageError that names a message whose properties fit into no entry.
    """
    part: list[Message] = []
    texts: list[bytes] = []
    size = 0
    for number, message in enumerate(messages):
        if names.UNIQUE_KEY not in message.properties:
            message.unique_key = make_key()
        try:
            text = entry_text(message)
        except RecordError as error:
            where, hint = f"message {number} of the batch", "put large values into the body"
            raise UsageError(str(error), where=where, hint=hint) from None
        entry_bytes = BATCH_ENTRY_BYTES_MIN + len(message.body) + len(text)
        if part and size + entry_bytes > bytes_max:
            yield _part_of(part, texts, make_key())
            part, texts, size = [], [], 0
        if entry_bytes > bytes_max:
            outgoing = prepare(message)
            yield BatchPart(outgoing, (outgoing.message_id,))
            continue
        part.append(message)
        texts.append(text)
        size += entry_bytes
    if part:
        yield _part_of(part, texts, make_key())


def _part_of(messages: list[Message], texts: list[bytes], batch_key: str) -> BatchPart:
    ids = tuple([message.properties[names.UNIQUE_KEY] for message in messages])
    return BatchPart(together(messages, texts, [None] * len(messages), batch_key), ids)


def together(messages: list[Message], texts: list[bytes], keys: Sequence[str | None], batch_key: str) -> Outgoing:
    """One request for messages; `texts` and `keys` are those of `record_batch.batch_body`."""
    first = messages[0]
    properties = {names.UNIQUE_KEY: batch_key}
    if names.WAIT in first.properties:
        properties[names.WAIT] = first.properties[names.WAIT]
    body, text = _body(messages, texts, keys), property_text.encode(properties)
    return Outgoing(first.topic, batch_key, body, text, count=len(messages))


def results_of_batch(first: SendResult, message_ids: Sequence[str]) -> list[SendResult]:
    """The result of each message. One answer covers a batch: offsets rise by one, offset ids are joined by commas."""
    offset_ids = first.offset_message_id.split(",")
    if len(offset_ids) != len(message_ids):
        # The broker stored the batch as one record (a topic of type BATCH): all its messages share one id.
        offset_ids = [first.offset_message_id] * len(message_ids)
    status, queue, region, handle, trace_on = (
        first.status,
        first.queue,
        first.region,
        first.recall_handle,
        first.trace_on,
    )
    return [
        SendResult(status, own, offset_id, queue, queue_offset, own, region, handle, trace_on)
        for queue_offset, (own, offset_id) in enumerate(
            zip(message_ids, offset_ids, strict=True), start=first.queue_offset
        )
    ]
