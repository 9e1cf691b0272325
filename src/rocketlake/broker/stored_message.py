"""A message of the log that is stored once more: when its delay is over, for another try, or committed.

Owns        how it is read by its place, the copy with another target.
Must not know   the reason of a copy, which properties change.
"""

from __future__ import annotations

from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

__all__ = ["copy_message", "read_message"]


def read_message(store: MessageStore, physical_offset: PhysicalOffset) -> StoredMessage | None:
    """The message at a place in the log, its body as it was sent; None if no message starts there."""
    record = store.read_record(physical_offset)
    if record is None:
        return None
    try:
        return decode_record(record, check_crc=False, decompress=False)
    except RecordError:
        return None


def copy_message(message: StoredMessage, topic: str, queue_id: int) -> PutMessage:
    """The message for another queue, without properties: the caller sets them, or the put does."""
    return PutMessage(
        topic,
        queue_id,
        message.body,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=encode_host(*message.born_host),
        store_host=encode_host(*message.store_host),
        reconsume_times=message.reconsume_times,
        is_own=True,
    )
