"""The lite messages of a queue of a parent, some at a time: by the kernel lite_run.pyx, or one by one.

Owns        how they are read, what a stored lite message says of itself.
Must not know   the table of light queues, groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rocketlake.broker.stored_message import read_message
from rocketlake.model import property_names as names
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import unpack_entries
from rocketlake.store.message_store import MessageStore

if TYPE_CHECKING:
    from rocketlake.broker.lite import lite_run

__all__ = ["LiteMessages", "Said", "number_of"]

_AT_ONCE = 256
_ALONE = 64
"""Messages of one read: by the kernel, and without it. A read takes a millisecond or two of the loop."""
_DIGITS = 19
"""Shorter numbers fit into 63 bits."""

Said: TypeAlias = tuple[str, int, bool, int]
"""Its lite topic, its number there, whether it names one before it, when it was stored in ms."""


class LiteMessages:
    """Of one store."""

    def __init__(self, store: MessageStore, cutter: lite_run.LiteCutter | None) -> None:
        """`cutter`: None where the kernels are not compiled."""
        self._store = store
        self._cutter = cutter

    def read(self, parent: str, queue_id: int, offset: QueueOffset) -> tuple[list[Said | None], PhysicalOffset | None]:
        """What some messages of a queue from `offset` on say, and where the last of them lies. Raises NotInMemory.

        None: it is no lite message of this parent. Nothing is found behind the end of the queue, or in a gap.
        """
        packed = self._store.packed_entries(parent, queue_id, offset, _AT_ONCE)
        entries = unpack_entries(packed)
        found: list[Said | None] = []
        if self._cutter is not None:
            found, _ = self._cutter.cut(packed, parent.encode())
        if not found:
            found = [self._read_one(parent, physical_offset) for physical_offset, _size, _code in entries[:_ALONE]]
        return found, entries[len(found) - 1][0] if found else None

    def _read_one(self, parent: str, physical_offset: PhysicalOffset) -> Said | None:
        message = read_message(self._store, physical_offset)
        if message is None or message.topic != parent:
            return None
        lite, number = message.properties.get(names.LITE_TOPIC), number_of(message.properties)
        if lite is None or number is None:
            return None
        return lite, number, names.LITE_BEFORE in message.properties, message.store_ms


def number_of(properties: dict[str, str]) -> int | None:
    """The number that a stored lite message has in its light queue; None if it is no lite message."""
    text = properties.get(names.INNER_MULTI_QUEUE_OFFSET, "")
    is_number = text.isascii() and text.isdecimal() and len(text) < _DIGITS
    return int(text) if is_number and names.LITE_TOPIC in properties else None
