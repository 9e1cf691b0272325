"""What one pop has found: the records and the texts of the answer.

Owns        the answer of a pop (RocketMQ's ExtraInfoUtil), the form of records that come from a retry topic.
Must not know   requests, how messages are found.

Source: docs/internals/wire.md, "POP".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rocketlake.broker.pop.positions import Move
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, encode_record
from rocketlake.codec.record_layout import QUEUE_OFFSET_AT
from rocketlake.model import property_names as names
from rocketlake.model.positions import QueueOffset
from rocketlake.protocol.command import Buffer
from rocketlake.store.results import PIECE_BYTES_MIN, ColdPart, GetResult

__all__ = ["Popped", "Take", "named_anew", "offsets_of", "records_of"]

_SIZE = struct.Struct(">i")
_SIZE_AND_OFFSET = struct.Struct(f">i{QUEUE_OFFSET_AT - _SIZE.size}xq")


class Take(NamedTuple):
    """Messages of one queue that are not handed out yet."""

    move: Move
    """Behind them."""
    mark: str
    """The topic is the one that was asked for, or a retry topic of one of the two forms."""
    start: QueueOffset
    """Where the read began."""
    offsets: Sequence[int]
    pieces: Sequence[Buffer]


@dataclass(slots=True)
class Popped:
    """The messages of one pop."""

    count: int = 0
    bytes: int = 0
    rest: int = 0
    """Messages that are left in the queues, roughly."""
    is_more: bool = False
    """A queue was not read to its end, though nothing in it was for this consumer."""
    free_ms: int = 0
    """When the first of the blocked queues hands out again; 0: none is blocked."""
    cold: Sequence[ColdPart] = ()
    """What must be read from disk before a queue can be looked at."""
    moves: list[Move] = field(default_factory=list)
    """Over what was found, and over what is passed by. Of a pop in order there are none, nor takes: its messages are
    handed out as they are found."""
    takes: list[Take] = field(default_factory=list)
    pieces: list[Buffer] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)

    def add(self, mark: str, queue_id: int, start: int, offsets: Sequence[int], pieces: Sequence[Buffer]) -> None:
        """Add to the answer what was found in a queue, read from offset `start` on."""
        self.bytes += sum(map(len, pieces))
        self.pieces.extend(pieces)
        self.starts.append(f"{mark} {queue_id} {start}")
        self.offsets.append(f"{mark} {queue_id} {','.join(map(str, offsets))}")

    def body(self) -> list[Buffer]:
        """The records as the link shall write them: many small pieces cost more to hand over than to copy."""
        if len(self.pieces) > 1 and self.bytes < len(self.pieces) * PIECE_BYTES_MIN:
            return [b"".join(self.pieces)]
        return self.pieces


def records_of(pieces: Sequence[Buffer]) -> Iterator[memoryview]:
    """The records of a read, one by one."""
    for part in pieces:
        piece, at = memoryview(part), 0
        while at < len(piece):
            (size,) = _SIZE.unpack_from(piece, at)
            yield piece[at : at + size]
            at += size


def offsets_of(result: GetResult) -> Sequence[int]:
    """The queue offsets of the records of a read."""
    if result.offsets is not None:
        return result.offsets
    offsets = []
    for piece in result.slices:
        at, end = 0, len(piece)
        while at < end:
            size, offset = _SIZE_AND_OFFSET.unpack_from(piece, at)
            offsets.append(offset)
            at += size
    return offsets


def named_anew(record: memoryview, topic: str, handle: str) -> bytearray:
    """A record of a retry topic as the consumer of `topic` shall see it: with that topic, and with its handle."""
    message = decode_record(record, check_crc=False, decompress=False)
    properties = {**message.properties, names.POP_CK: handle}
    return encode_record(
        topic.encode(),
        message.body,
        property_text.encode_again(properties),
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=encode_host(*message.born_host),
        store_ms=message.store_ms,
        store_host=encode_host(*message.store_host),
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        body_crc=message.body_crc,
    )
