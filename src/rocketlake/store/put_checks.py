"""Which messages may be appended: the checks of a put, in RocketMQ's order, and the parts of a batch.

Owns        limits of topic, body, properties and record; reading a batch body.
Must not know   files, offsets, whether the store takes messages at all.

Rules: docs/internals/store_layout.md, "Put" (Apache's HookUtils.checkBeforePutMessage and MessageExtEncoder).
"""

from __future__ import annotations

from rocketlake.codec.record_batch import BatchEntry, decode_batch
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX, RecordError
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["BatchItem", "batch_item", "batch_items", "illegal", "refuse"]

_TOPIC_BYTES_MAX = 127
_RETRY_TOPIC_BYTES_MAX = 255
_RETRY_PREFIX = "%RETRY%"
_PAIR_END = b"\x02"

BatchItem = tuple[int, bytes, bytes]
"""(flag, body, properties)."""


def refuse(message: PutMessage, body_bytes_max: int) -> PutResult | None:
    """The answer for a message that no store would take, None for a good one."""
    topic = message.topic
    # A record without a topic, or of a negative queue, would count as damage when the log is read again.
    if not topic or message.queue_id < 0:
        return illegal(f"no queue is named {topic!r} {message.queue_id}")
    if (len(topic) > _TOPIC_BYTES_MAX or not topic.isascii()) and (fault := _topic_fault(topic)):
        return illegal(fault)
    if len(message.body) > body_bytes_max and not message.is_own:
        return illegal(f"the body has {len(message.body)} bytes, maxMessageSize is {body_bytes_max}")
    if len(message.properties) > PROPERTIES_BYTES_MAX:
        return PutResult(
            PutStatus.PROPERTIES_TOO_LONG,
            reason=f"the properties have {len(message.properties)} bytes, at most {PROPERTIES_BYTES_MAX} are allowed",
        )
    return None


def _topic_fault(topic: str) -> str:
    """Why this topic cannot be written, "" if it can."""
    try:
        topic_bytes = len(topic.encode())
    except UnicodeEncodeError as error:
        return f"the topic is no text: {error}"
    limit = _RETRY_TOPIC_BYTES_MAX if topic.startswith(_RETRY_PREFIX) else _TOPIC_BYTES_MAX
    return f"the topic has {topic_bytes} bytes, at most {limit} are allowed" if topic_bytes > limit else ""


def illegal(reason: str) -> PutResult:
    """The answer MESSAGE_ILLEGAL."""
    return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=reason)


def batch_items(message: PutMessage) -> list[BatchItem] | PutResult:
    """The messages in a batch body, each with its own properties followed by those of the batch; or why not."""
    try:
        entries = decode_batch(message.body)
    except RecordError as error:
        return illegal(f"the batch is broken: {error}")
    if not entries:
        return illegal("the batch is empty")
    items: list[BatchItem] = []
    for entry in entries:
        item = batch_item(entry, len(items), message.properties)
        if isinstance(item, PutResult):
            return item
        items.append(item)
    return items


def batch_item(entry: BatchEntry, number: int, shared: bytes) -> BatchItem | PutResult:
    """Message `number` of a batch with its own properties followed by those of the batch; or why not."""
    flag, body, properties = entry
    if shared:
        separator = b"" if not properties or properties.endswith(_PAIR_END) else _PAIR_END
        properties = properties + separator + shared
    if len(properties) > PROPERTIES_BYTES_MAX:
        return PutResult(
            PutStatus.PROPERTIES_TOO_LONG,
            reason=f"message {number} of the batch has {len(properties)} bytes of properties,"
            f" at most {PROPERTIES_BYTES_MAX} are allowed",
        )
    return flag, body, properties
