"""Counts from the log the messages that the saved table of producer sequences lacks.

Owns        the search for marked records behind a place in the log, the number of each.
Must not know   when tables are saved, the use of a number.

A record holds the mark of its batch. Its own number follows from its place: the messages of a batch are neighbours in
their queue, have one store time, and are not more than the mark says. If a power cut took the end of a batch, the
messages that are left are counted, and a replay brings the others. Their digest is made from the records: a record
holds every byte of its batch entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN, BLANK_BYTES, MAGIC_V1, MAGIC_V2, RecordError
from rocketlake.codec.record_parts import properties_block
from rocketlake.codec.sequence_mark import SequenceMark, parse_mark
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage

__all__ = ["MARK", "Count", "recover_sequences"]

_log = get_logger(__name__)

_HEAD = struct.Struct(">ii")  # size, magic
_ENTRY_HEAD = struct.Struct(">iiiii")
MARK = f"{names.PRODUCER_SEQUENCE}\x01".encode()
"""The bytes before the text of a mark."""
_CHUNK = 256 << 10


@dataclass(slots=True)
class _Batch:
    """The messages of one batch that were found so far; the first one lies at `queue_offset`."""

    text: str
    mark: SequenceMark
    store_ms: int
    topic: str
    queue_id: int
    queue_offset: int
    digest: int | None
    count: int = 0

    def holds(self, text: str, message: StoredMessage) -> bool:
        """True if the message, the next marked one of the queue, belongs to this batch."""
        number = message.queue_offset - self.queue_offset
        return (
            (text, message.store_ms) == (self.text, self.store_ms)
            and number >= 0
            and (not self.mark.count or number < self.mark.count)
        )


def recover_sequences(
    table: ProducerSequences,
    log: Iterable[tuple[int, memoryview]],
    deleted: Mapping[str, int] | None = None,
    note: Callable[[int], None] = lambda _position: None,
) -> int:
    """Bring the table up to the end of the log; `log` are its bytes behind the table's place, file by file.

    `deleted`: topic -> end of the log when the topic was deleted; its messages before that end are not counted. `note`
    is called now and then with the position. Returns how many messages were counted.
    """
    count = Count()
    for position in count.steps(log, deleted):
        note(position)
    return count.into(table)


class Count:
    """What a stretch of the log adds to the table. The table is touched at the end only: it may be saved meanwhile."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], _Batch] = {}  # the last batch of each queue
        self._batches: list[_Batch] = []

    def steps(self, log: Iterable[tuple[int, memoryview]], deleted: Mapping[str, int] | None = None) -> Iterator[int]:
        """Count; yields the position every few milliseconds. The arguments are those of `recover_sequences`."""
        ends = deleted or {}
        for offset, view in log:
            for place, record, message in _marked(offset, view):
                if message is None:
                    yield place
                elif place >= ends.get(message.topic, 0):
                    self._add(record, message)

    def _add(self, record: bytes, message: StoredMessage) -> None:
        text = message.properties[names.PRODUCER_SEQUENCE]
        queue = message.topic, message.queue_id
        batch = self._last.get(queue)
        if batch is None or not batch.holds(text, message):
            try:
                mark = parse_mark(text)
            except UsageError:
                return  # written by another broker
            batch = _Batch(text, mark, message.store_ms, *queue, message.queue_offset, mark.before)
            self._last[queue] = batch
            self._batches.append(batch)
        if batch.digest is not None:
            batch.digest = crc32(_entry(record, message), batch.digest)
        batch.count = message.queue_offset - batch.queue_offset + 1

    def into(self, table: ProducerSequences) -> int:
        """Have the table count all of it; how many messages that are."""
        for batch in self._batches:
            mark = batch.mark
            digest = mark.after if batch.count == mark.count else batch.digest
            table.recover(batch.topic, batch.queue_id, mark, mark.sequence + batch.count, digest)
        return sum(batch.count for batch in self._batches)


def _entry(record: bytes, message: StoredMessage) -> bytes:
    """The batch entry of this record. The broker put the mark and other properties behind those of the entry."""
    properties = properties_block(record)
    own, body = properties[: properties.rfind(MARK)], message.body
    head = _ENTRY_HEAD.pack(BATCH_ENTRY_BYTES_MIN + len(body) + len(own), 0, 0, message.flag, len(body))
    return b"".join((head, body, len(own).to_bytes(2, "big"), own))


def _marked(offset: int, view: memoryview) -> Iterator[tuple[int, bytes, StoredMessage | None]]:
    """The messages in these records that have a mark: (physical offset, record, message).

    Before each chunk its offset, without a message.
    """
    position, step = 0, _CHUNK
    while position + BLANK_BYTES <= len(view):
        yield offset + position, b"", None
        chunk = bytes(view[position : position + step])
        taken = 0
        has_marks = MARK in chunk
        while taken + BLANK_BYTES <= len(chunk):
            size, magic = _HEAD.unpack_from(chunk, taken)
            if magic not in (MAGIC_V1, MAGIC_V2) or size <= BLANK_BYTES:
                return  # the end of the file
            if taken + size > len(chunk):
                break
            if has_marks and chunk.find(MARK, taken, taken + size) >= 0:
                yield from _decoded(chunk[taken : taken + size], offset + position + taken)
            taken += size
        if not taken and position + len(chunk) == len(view):
            return  # the end of the log
        step = _CHUNK if taken else 2 * step  # the record is longer than the chunk
        position += taken


def _decoded(record: bytes, offset: int) -> Iterator[tuple[int, bytes, StoredMessage]]:
    try:
        message = decode_record(record, check_crc=False, decompress=False)
    except RecordError as error:
        _log.warning("the record at %d is damaged and is not counted for its producer: %s", offset, error)
        return
    if names.PRODUCER_SEQUENCE in message.properties:  # a body may hold these bytes, too
        yield offset, record, message
