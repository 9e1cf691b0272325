"""The messages that a replay can copy: sound ones, and damaged ones with their bodies as stored.

Owns        the choice of messages to copy, of those that cannot be read, and of those that no client may send.
Must not know   the target of copies, how answers are pulled.

Rule: a message whose body is damaged is copied with its body as it is stored, not marked as compressed, and with the
reason as property DAMAGE, as a consumer's dead letter has it. A message whose lengths are broken cannot be copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketlake.base.errors import UsageError
from rocketlake.client.wire import DAMAGE, TAG_SEPARATOR, PullAnswer
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.positions import QueueOffset

__all__ = ["Copyable", "copyable", "why_unsendable"]

_REASON_CHARS_MAX = 500
_PASSED_OVER = "the broker passes over it: its record is damaged, or it has expired"


@dataclass(slots=True)
class Copyable:
    """`messages` in the order of the queue; of those `damaged` (offset -> reason). `lost` are not among them."""

    messages: list[StoredMessage]
    damaged: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


def copyable(answer: PullAnswer, begin: int, end: int, *, is_filtered: bool) -> Copyable:
    """The messages before `end` in the answer to a pull at `begin`. With a filter, missing offsets are not known."""
    found = Copyable([message for message in answer.messages if message.queue_offset < end])
    for each in answer.damaged:
        if each.offset >= end:
            continue
        if each.message is None:
            found.lost[each.offset] = each.reason
            continue
        found.damaged[each.offset] = each.reason
        found.messages.append(_as_stored(each.message, each.offset, each.reason))
    found.messages.sort(key=lambda message: message.queue_offset)
    if not is_filtered:
        there = {message.queue_offset for message in found.messages} | found.lost.keys()
        missing = [offset for offset in range(begin, min(answer.next_offset, end)) if offset not in there]
        found.lost |= dict.fromkeys(missing, _PASSED_OVER)
    return found


def why_unsendable(copy: Message, bytes_max: int) -> str:
    """Why no client may send this copy, though its original is stored; "" when it may."""
    try:
        properties_bytes = len(property_text.encode(copy.properties))
    except UsageError as error:
        return f"{error.what} ({error.where})"
    if not copy.body:
        return "its body is empty, which RocketMQ refuses"
    if len(copy.body) > bytes_max:
        return f"unpacked its body has {len(copy.body)} bytes, limit {bytes_max}"
    if properties_bytes > PROPERTIES_BYTES_MAX:
        return f"with those of a copy its properties have {properties_bytes} bytes, limit {PROPERTIES_BYTES_MAX}"
    return f"its tag holds {TAG_SEPARATOR}" if TAG_SEPARATOR in (copy.tags or "") else ""


def _as_stored(message: StoredMessage, offset: int, reason: str) -> StoredMessage:
    message.queue_offset = QueueOffset(offset)
    # A property cannot hold line ends or the separators of properties.
    message.properties[DAMAGE] = "".join(c if c.isprintable() else " " for c in reason)[:_REASON_CHARS_MAX]
    return message
