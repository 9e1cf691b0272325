"""Finds the copies of delayed messages that were delivered before this broker began to deliver.

Owns        what makes a record of the log the delivered copy of a parked one, how long a start looks for such copies.
Must not know   when a message is due, how far each level is delivered.

The saved progress is behind the deliveries: by a second on a slave, by some seconds after a crash. The log has them,
and the key index leads to them. So a copy gets a unique key if its message has none: where that one lies. An Apache
broker's copy of a message without a key is not found, and no copy is if messageIndexEnable is false: the message comes
twice then.

Our level delivers in order, and passes by messages that are gone. Apache's with enableScheduleAsyncDeliver does not:
up to 2000 copies lie in the log behind a message that is tried again. So the search ends only behind that many
messages without a copy, or with the first message of a level that came after the start; the timer delivers by time, so
older ones may follow there. Of the ticks in which the old master may have delivered last, the timer looks for the copy
of each message.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketlake.base.clock import Millis
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["DeliveredBefore", "with_unique_key"]

_CLOCKS_DIFFER_MS = 600_000
"""The store time of the copy is that of another broker, perhaps."""
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 64
_WITHOUT_COPY_MAX = 2000
"""Apache's scheduleAsyncDeliverMaxPendingLimit. A look in vain takes 10 us."""


class DeliveredBefore:
    """The search of one start."""

    def __init__(
        self, store: MessageStore, levels: Iterable[int], log_end: PhysicalOffset, *, in_log_order: bool = True
    ) -> None:
        """`log_end`: the end of the log at the start. No copy can be found before the log is dispatched up to there.

        `in_log_order`: messages of a level are delivered in the order in which they came.
        """
        self._in_log_order = in_log_order
        self._store = store
        self._log_end = log_end
        self.looks_for_each = False
        """True while messages are delivered any of which may have a copy, however many before it have none."""
        self._without_copy = dict.fromkeys(levels, (0, QueueOffset(-1)))
        """By level: how many messages in a row have no copy, and the last of them. It comes again until it is stored.

        A level whose search is over is missing.
        """

    def log_end(self, level: int) -> int:
        """Messages of the level at or behind this place of the log have no copy; 0: none has, the search is over."""
        return self._log_end if self.looks_for_each or level in self._without_copy else 0

    def end_of_copy(self, level: int, parked: StoredMessage, topic: str) -> PhysicalOffset | None:
        """The end of the copy of the level's next message in the log; None if the message is to be delivered now.

        Raises NotInMemory.
        """
        if self.looks_for_each:
            return self.find(parked, topic) if parked.physical_offset < self._log_end else None
        if level not in self._without_copy:
            return None
        if parked.physical_offset >= self._log_end:
            if self._in_log_order:
                del self._without_copy[level]
            return None
        in_vain, last = self._without_copy[level]
        end = self.find(parked, topic)
        if end is not None:
            self._without_copy[level] = 0, last
        elif in_vain + 1 >= _WITHOUT_COPY_MAX:
            del self._without_copy[level]
        elif parked.queue_offset != last:
            self._without_copy[level] = in_vain + 1, parked.queue_offset
        return end

    def find(self, parked: StoredMessage, topic: str) -> PhysicalOffset | None:
        """The end of a parked message's copy in this topic; None if it has none. Raises NotInMemory.

        A copy lies behind the parked message, and has its key, its time of birth and its number of tries.
        """
        begin = Millis(max(0, parked.store_ms - _CLOCKS_DIFFER_MS))
        found = self._store.query(topic, parked.message_id, _HITS_MAX, begin, _ANY_TIME, unique=True)
        for message in decode_records(b"".join(found.slices), check_crc=False, decompress=False):
            if message.physical_offset > parked.physical_offset and _mark(message) == _mark(parked):
                return PhysicalOffset(message.physical_offset + message.store_size)
        return None


def with_unique_key(parked: StoredMessage, properties: bytes) -> bytes:
    """The properties of its copy: those of the parked message, and a key by which the copy can be found."""
    if parked.unique_key:
        return properties
    key = property_text.encode({names.UNIQUE_KEY: parked.offset_message_id})
    keyed = properties + (b"" if not properties or properties.endswith(b"\x02") else b"\x02") + key
    return keyed if len(keyed) <= PROPERTIES_BYTES_MAX else properties


def _mark(message: StoredMessage) -> tuple[str, int, int, int]:
    return message.message_id, message.born_ms, message.reconsume_times, message.body_crc
