"""Finds the copy of a delayed message that was delivered before this broker began to deliver.

Owns        what makes a record of the log the delivered copy of a parked one.
Must not know   when a message is due, how far each level is delivered.

The saved progress is behind the deliveries: by a second on a slave, by some seconds after a crash. The log has them.
"""

from __future__ import annotations

from rocketlake.base.clock import Millis
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["delivered_end"]

_CLOCKS_DIFFER_MS = 600_000
"""The store time of the copy is that of another broker, perhaps."""
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 64


def delivered_end(store: MessageStore, parked: StoredMessage, topic: str) -> PhysicalOffset | None:
    """The end of its copy in the log; None if there is none, or the key index does not know it.

    A copy lies behind the parked message, and has its unique key, its time of birth and its number of tries. Raises
    NotInMemory.
    """
    if not parked.unique_key:
        return None
    begin = Millis(max(0, parked.store_ms - _CLOCKS_DIFFER_MS))
    found = store.query(topic, parked.unique_key, _HITS_MAX, begin, _ANY_TIME, unique=True)
    for message in decode_records(b"".join(found.slices)):
        if message.physical_offset > parked.physical_offset and _mark(message) == _mark(parked):
            return PhysicalOffset(message.physical_offset + message.store_size)
    return None


def _mark(message: StoredMessage) -> tuple[str | None, int, int, int]:
    return message.unique_key, message.born_ms, message.reconsume_times, message.body_crc
