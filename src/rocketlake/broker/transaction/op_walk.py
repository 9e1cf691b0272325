"""Reads op messages from the progress on, for one walk through the half topic.

Owns        which half messages they end, up to which op message all of that is done with.
Must not know   half messages.

Rule (RocketMQ's fillOpRemoveMap): an op message is done with when every half message it names is passed. The progress
of the op topic moves over done ones only as far as they follow each other.
"""

from __future__ import annotations

from rocketlake.base.logs import get_logger
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ops import REMOVE_TAG, half_offsets
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import OP_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["OpWalk"]

_log = get_logger(__name__)

_BATCH = 8
"""Op messages read at once; with the default size they name up to 4,000 half messages."""


class OpWalk:
    """Ends of half messages, as far as they were read."""

    def __init__(self, store: MessageStore, op_offset: int) -> None:
        """Begin at this queue offset."""
        self.late: set[int] = set()
        """Half messages that were passed when their ends were read."""
        self._store = store
        self._next = op_offset
        self._safe = op_offset
        self._named_by: dict[int, int] = {}
        self._left: dict[int, int] = {}

    def take(self, half_offset: int) -> bool:
        """Is this half message ended? It is passed then."""
        op_offset = self._named_by.pop(half_offset, None)
        if op_offset is None:
            return False
        self._left[op_offset] -= 1
        return True

    @property
    def safe_offset(self) -> int:
        """The first op message that names a half message not passed yet."""
        while self._safe < self._next and self._left.get(self._safe, 0) == 0:
            self._left.pop(self._safe, None)
            self._safe += 1
        return self._safe

    def read_on(self, half_offset: int) -> bool:
        """Read some more; half messages before `half_offset` are passed. False at the end of the op topic."""
        entries = self._store.queue_entries(OP_TOPIC, HALF_QUEUE, self._next, _BATCH)
        for physical_offset, _size, _tag_code in entries:
            message = self._read(physical_offset)
            if message is not None:
                self._note(message.body, half_offset)
            self._next += 1
        return bool(entries)

    def _read(self, physical_offset: int) -> StoredMessage | None:
        """The op message; None if it is gone, cannot be read, or the entry only fills a gap a recovery left."""
        record = self._store.read_record(physical_offset)
        if record is None:
            return None
        try:
            message = decode_record(record, check_crc=False)
        except RecordError as error:
            _log.error("op message at %d cannot be read: %s", physical_offset, error)
            return None
        if message.topic != OP_TOPIC or message.queue_offset != self._next or message.tags != REMOVE_TAG:
            return None
        return message

    def _note(self, body: bytes, passed: int) -> None:
        """Take what one op message names; an end that was read before belongs to the first that names it."""
        named = 0
        for half_offset in half_offsets(body):
            if half_offset < passed:
                self.late.add(half_offset)
            elif half_offset not in self._named_by:
                self._named_by[half_offset] = self._next
                named += 1
        self._left[self._next] = named
