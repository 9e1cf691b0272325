"""Read from the log what the saved table of producer sequences does not say.

Owns        finding marked records behind a place in the log, the number of each.
Must not know   when tables are saved, what a number decides.

A record holds the mark of its batch; its own number follows from its place: the messages of a batch are neighbours in
their queue. Of a batch whose end was lost (a power cut) what is there is counted, so a replay brings the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.broker.producer_sequences.mark import parse_mark
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_V1, MAGIC_V2, RecordError
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage

__all__ = ["recover_sequences"]

_log = get_logger(__name__)

_HEAD = struct.Struct(">ii")  # size, magic
_MARK = f"{names.PRODUCER_SEQUENCE}\x01".encode()
_CHUNK = 4 << 20


def recover_sequences(table: ProducerSequences, log: Iterable[tuple[int, memoryview]]) -> int:
    """Bring the table up to the end of the log; `log` are its bytes behind the table's place, file by file.

    Returns how many messages were counted.
    """
    begins: dict[tuple[str, int], tuple[str, int]] = {}  # the last batch of a queue: its mark, and where it begins
    found = 0
    for offset, view in log:
        for message in _marked(offset, view):
            text = message.properties[names.PRODUCER_SEQUENCE]
            try:
                mark = parse_mark(text)
            except UsageError:
                continue  # written by another broker
            queue = message.topic, message.queue_id
            if begins.get(queue, ("", 0))[0] != text:
                begins[queue] = text, message.queue_offset
            number = mark.sequence + message.queue_offset - begins[queue][1]
            table.recover(*queue, mark, number + 1, message.store_ms)
            found += 1
    return found


def _marked(offset: int, view: memoryview) -> Iterator[StoredMessage]:
    """The messages in these records that have a mark."""
    position, step = 0, _CHUNK
    while position + BLANK_BYTES <= len(view):
        chunk = bytes(view[position : position + step])
        taken = 0
        has_marks = _MARK in chunk
        while taken + BLANK_BYTES <= len(chunk):
            size, magic = _HEAD.unpack_from(chunk, taken)
            if magic not in (MAGIC_V1, MAGIC_V2) or size <= BLANK_BYTES:
                return  # the end of the file
            if taken + size > len(chunk):
                break
            if has_marks and chunk.find(_MARK, taken, taken + size) >= 0:
                yield from _decoded(chunk[taken : taken + size], offset + position + taken)
            taken += size
        if not taken and position + len(chunk) == len(view):
            return  # the end of the log
        step = _CHUNK if taken else 2 * step  # a record longer than the chunk
        position += taken


def _decoded(record: bytes, offset: int) -> Iterator[StoredMessage]:
    try:
        message = decode_record(record, check_crc=False, decompress=False)
    except RecordError as error:
        _log.warning("the record at %d is damaged, its producer's sequence is not counted: %s", offset, error)
        return
    if names.PRODUCER_SEQUENCE in message.properties:  # a body may hold these bytes, too
        yield message
