"""Records as a broker sends them -> one Arrow batch, without a Python object per message.

Owns        the Arrow column of each name in schema.COLUMNS.
Must not know   offsets and ranges, the network, Spark's classes.

Bytes: docs/internals/record.md. Fixed fields are gathered by numpy over all records at once; properties of all
records are cut at once at their separators. Same values as codec/record.py gives one by one (tests/unit/spark).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from rocketlake.base.crc32 import crc32
from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.codec import record_layout as layout
from rocketlake.codec.compression import decompress
from rocketlake.codec.host import decode_host
from rocketlake.model import property_names, sys_flag

__all__ = ["Records", "record_batch", "record_starts"]

Ints = np.ndarray[Any, np.dtype[np.int64]]

_HEAD = struct.Struct(">ii")
_NAME_END, _VALUE_END = 1, 2


def record_starts(data: bytes) -> list[int]:
    """Positions of the records in a pull answer. ProtocolError if the bytes are not whole records."""
    starts: list[int] = []
    position, end = 0, len(data)
    while position + _HEAD.size <= end:
        size, magic = _HEAD.unpack_from(data, position)
        if size < layout.RECORD_BYTES_MIN or position + size > end or magic not in (layout.MAGIC_V1, layout.MAGIC_V2):
            break
        starts.append(position)
        position += size
    if position != end:
        raise ProtocolError(f"a pull answer of {end} bytes is not whole records: broken at byte {position}")
    return starts


def record_batch(records: Records, broker_name: str, schema: pa.Schema) -> pa.RecordBatch:
    """One Arrow batch of exactly this schema, one row per record."""
    columns = [
        _constant(broker_name, len(records)) if name == "brokerName" else _COLUMNS[name](records)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Records:
    """The records of a chunk, seen as columns. ProtocolError if lengths inside a record do not fit."""

    def __init__(self, data: bytes, starts: Sequence[int]) -> None:
        self.data = data
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        self.at: Ints = np.asarray(starts, dtype=np.int64)
        self.sys_flag = self.int32(layout.SYS_FLAG_AT)
        if bool((self.sys_flag & sys_flag.INNER_BATCH).any()):
            raise UsageError("topics of batch queues (BatchCQ) are not supported yet", hint="read another topic")
        born_host_size = np.where(self.sys_flag & sys_flag.BORN_HOST_V6, 20, 8)
        store_host_size = np.where(self.sys_flag & sys_flag.STORE_HOST_V6, 20, 8)
        self.store_time_at = layout.BORN_HOST_AT + born_host_size
        self.reconsume_at = layout.STORE_MS_AT + born_host_size + store_host_size
        self._measure()

    def _measure(self) -> None:
        record_end = self.at + self.int32(0)
        self.body_start: Ints = self.at + self.reconsume_at + 16
        self._require(self.body_start + 3 <= record_end)
        body_size = self.int32(self.reconsume_at + 12)
        self.body_end: Ints = self.body_start + body_size
        wide = self.int32(layout.MAGIC_AT) == layout.MAGIC_V2
        self._require((body_size >= 0) & (self.body_end + 3 + wide <= record_end))
        first, second = self._bytes[self.body_end], self._bytes[self.body_end + 1]
        topic_size = np.where(wide, first.astype(np.int64) << 8 | second, first)
        self.topic_start: Ints = self.body_end + 1 + wide
        self.topic_end: Ints = self.topic_start + topic_size
        self._require(self.topic_end + 2 <= record_end)
        high, low = self._bytes[self.topic_end].astype(np.int64), self._bytes[self.topic_end + 1]
        self.properties_start: Ints = self.topic_end + 2
        self.properties_end: Ints = self.properties_start + (high << 8 | low)
        self._require(self.properties_end <= record_end)

    def _require(self, holds: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        if not bool(holds.all()):
            raise ProtocolError(f"record {int(np.argmin(holds))} of a pull answer has lengths that do not fit")

    def __len__(self) -> int:
        return len(self.at)

    def int32(self, at: Ints | int) -> Ints:
        """The big-endian int32 at this position of each record."""
        cells = self._bytes[(self.at + at)[:, None] + np.arange(4)]
        numbers: Ints = cells.view(">i4")[:, 0].astype(np.int64)
        return numbers

    def int64(self, at: Ints | int) -> Ints:
        """The big-endian int64 at this position of each record."""
        cells = self._bytes[(self.at + at)[:, None] + np.arange(8)]
        numbers: Ints = cells.view(">i8")[:, 0].astype(np.int64)
        return numbers

    @cached_property
    def queue_offsets(self) -> Ints:
        """Queue offset of each record."""
        return self.int64(layout.QUEUE_OFFSET_AT)

    def slices(self, start: Ints, end: Ints) -> list[bytes]:
        """data[start:end] of each record."""
        data = self.data
        return [data[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)]

    @cached_property
    def bodies(self) -> list[bytes]:
        """Bodies, checked against their checksum and decompressed."""
        bodies = self.slices(self.body_start, self.body_end)
        for index, (body, wanted) in enumerate(zip(bodies, self.int32(layout.CRC_AT).tolist(), strict=True)):
            if crc32(body) != wanted:
                offset = int(self.queue_offsets[index])
                raise ProtocolError(f"the body of the message at queue offset {offset} does not match its checksum")
        for row in np.flatnonzero(self.sys_flag & sys_flag.COMPRESSED).tolist():
            bodies[row] = decompress(bodies[row], int(self.sys_flag[row]))
        return bodies

    @cached_property
    def properties(self) -> _Properties:
        """All properties of all records."""
        return _Properties(self.slices(self.properties_start, self.properties_end))

    def hosts(self, at: Ints | int, v6: int) -> list[bytes]:
        """Host bytes (address and port) of each record."""
        start = self.at + at
        return self.slices(start, start + np.where(self.sys_flag & v6, 20, 8))


class _Properties:
    """Properties of many records, cut at once: entry k is blob[start[k]:middle[k]] = blob[middle[k]+1:end[k]]."""

    def __init__(self, blocks: list[bytes]) -> None:
        # Writers end each entry with \x02; one that leaves out the last is tolerated (wire.md 24.4).
        blocks = [b + b"\x02" if b and b[-1] != _VALUE_END else b for b in blocks]
        blob = b"".join(blocks)
        try:
            blob.decode()
        except UnicodeDecodeError:
            # Java reads such text with replacement characters; Arrow would hand invalid text to the JVM.
            blocks = [block.decode(errors="replace").encode() for block in blocks]
            blob = b"".join(blocks)
        self.rows = len(blocks)
        self._blob = blob
        self._bytes = np.frombuffer(blob, dtype=np.uint8)
        self._cut(np.cumsum([len(block) for block in blocks], dtype=np.int64))

    def _cut(self, block_ends: Ints) -> None:
        ends = np.flatnonzero(self._bytes == _VALUE_END)
        starts = np.concatenate((np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1] + 1))
        separators = np.append(np.flatnonzero(self._bytes == _NAME_END), len(self._bytes))
        middles = separators[np.searchsorted(separators, starts)]
        # Entries without a name or without a value are dropped, as Java's reader does.
        good = (middles > starts) & (middles + 1 < ends)
        self.start, self.middle, self.end = starts[good], middles[good], ends[good]
        self.row = np.searchsorted(block_ends, self.start, side="right")

    def named(self, name: str) -> list[str | None] | None:
        """The value of this property per row (the last, if repeated); None if no row has it."""
        wanted = name.encode()
        hits = np.flatnonzero(self.middle - self.start == len(wanted))
        cells = self._bytes[self.start[hits][:, None] + np.arange(len(wanted))]
        hits = hits[(cells == np.frombuffer(wanted, dtype=np.uint8)).all(axis=1)]
        if not len(hits):
            return None
        values: list[str | None] = [None] * self.rows
        blob = self._blob
        places = zip(self.row[hits].tolist(), self.middle[hits].tolist(), self.end[hits].tolist(), strict=True)
        for row, middle, end in places:
            values[row] = blob[middle + 1 : end].decode()
        return values

    def as_map(self) -> pa.Array:
        """One map per row; a record without properties has an empty one."""
        offsets = np.searchsorted(self.row, np.arange(self.rows + 1)).astype(np.int32)
        return pa.MapArray.from_arrays(
            pa.array(offsets), self._texts(self.start, self.middle), self._texts(self.middle + 1, self.end)
        )

    def _texts(self, starts: Ints, ends: Ints) -> pa.Array:
        # The pieces lie in order and apart, so "inside a piece" is a running sum of +1 at starts and -1 at ends.
        steps = np.zeros(len(self._bytes) + 1, dtype=np.int8)
        steps[starts] = 1
        steps[ends] -= 1
        inside = np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)
        offsets = np.zeros(len(starts) + 1, dtype=np.int32)
        np.cumsum(ends - starts, out=offsets[1:])
        return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(self._bytes[inside]))


def _constant(text: str, rows: int) -> pa.Array:
    return pa.array([text] * rows, pa.string())


def _int32(at: int) -> Callable[[Records], pa.Array]:
    return lambda records: pa.array(records.int32(at).astype(np.int32))


def _text(name: str) -> Callable[[Records], pa.Array]:
    def column(records: Records) -> pa.Array:
        values = records.properties.named(name)
        return pa.nulls(len(records), pa.string()) if values is None else pa.array(values, pa.string())

    return column


def _time(milliseconds: Ints) -> pa.Array:
    return pa.array(milliseconds * 1000).view(pa.timestamp("us", "UTC"))


def _topic(records: Records) -> pa.Array:
    return pa.array([name.decode(errors="replace") for name in records.slices(records.topic_start, records.topic_end)])


def _host(raw: bytes) -> str:
    host, port = decode_host(raw)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _hosts(raw: list[bytes]) -> pa.Array:
    # Few machines send many messages: each address is written out once.
    text = {host: _host(host) for host in set(raw)}
    return pa.array([text[host] for host in raw], pa.string())


def _born_host(records: Records) -> pa.Array:
    return _hosts(records.hosts(layout.BORN_HOST_AT, sys_flag.BORN_HOST_V6))


def _store_hosts(records: Records) -> list[bytes]:
    return records.hosts(records.store_time_at + 8, sys_flag.STORE_HOST_V6)


def _offset_ids(records: Records) -> list[str]:
    # The id is the store host, port and offset in hex, as they lie in the record (model/message_id.py).
    offsets = records.slices(records.at + layout.PHYSICAL_OFFSET_AT, records.at + layout.SYS_FLAG_AT)
    return [(host + offset).hex().upper() for host, offset in zip(_store_hosts(records), offsets, strict=True)]


def _message_id(records: Records) -> pa.Array:
    unique = records.properties.named(property_names.UNIQUE_KEY)
    if unique is None:
        return pa.array(_offset_ids(records), pa.string())
    if None in unique:
        return pa.array([key or own for key, own in zip(unique, _offset_ids(records), strict=True)], pa.string())
    return pa.array(unique, pa.string())


def _delay_level(records: Records) -> pa.Array:
    levels = records.properties.named(property_names.DELAY)
    if levels is None:
        return pa.nulls(len(records), pa.int32())
    return pa.array(
        [int(level) if level and level.isascii() and level.isdigit() else None for level in levels], pa.int32()
    )


_COLUMNS: dict[str, Callable[[Records], pa.Array]] = {
    "topic": _topic,
    "queueId": _int32(layout.QUEUE_ID_AT),
    "queueOffset": lambda records: pa.array(records.queue_offsets),
    "commitLogOffset": lambda records: pa.array(records.int64(layout.PHYSICAL_OFFSET_AT)),
    "msgId": _message_id,
    "offsetMsgId": lambda records: pa.array(_offset_ids(records), pa.string()),
    "tags": _text(property_names.TAGS),
    "keys": _text(property_names.KEYS),
    "shardingKey": _text(property_names.SHARDING_KEY),
    "bornTimestamp": lambda records: _time(records.int64(layout.BORN_MS_AT)),
    "storeTimestamp": lambda records: _time(records.int64(records.store_time_at)),
    "bornHost": _born_host,
    "storeHost": lambda records: _hosts(_store_hosts(records)),
    "flag": _int32(layout.FLAG_AT),
    "sysFlag": lambda records: pa.array(records.sys_flag.astype(np.int32)),
    "reconsumeTimes": lambda records: pa.array(records.int32(records.reconsume_at).astype(np.int32)),
    "bodyCRC": _int32(layout.CRC_AT),
    "transactionId": _text(property_names.TRANSACTION_ID),
    "delayLevel": _delay_level,
    "properties": lambda records: records.properties.as_map(),
    "body": lambda records: pa.array(records.bodies, pa.binary()),
}
