"""Records as a broker stores and sends them -> Arrow batches, without a Python object per message.

Owns        the Arrow column of each name in schema.COLUMNS, the handling of compressed and of broken bodies.
Must not know   offsets and ranges, files, the network, Spark's classes.

The bytes are read by one of two forms that give the same arrays: a kernel (columns_kernel.py), or numpy where nothing
is compiled (columns_numpy.py). Same values as codec/record.py gives one by one (tests/unit/spark/test_columns.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.codec import record_layout as layout
from rocketlake.codec.compression import decompress
from rocketlake.codec.record_layout import RecordError
from rocketlake.codec.record_walk import walk
from rocketlake.model import property_names, sys_flag
from rocketlake.spark.columns_numpy import NumpyForm
from rocketlake.spark.record_form import Bools, Form, Ints, best_form
from rocketlake.spark.schema import MS_MAX, MS_MIN

__all__ = ["READ_FAULTS", "Records", "are_held", "record_batch", "record_batches", "record_starts", "times"]

READ_FAULTS = (ProtocolError, RecordError, UsageError)
"""The errors of a read of damaged bytes. UsageError: a record claims to be of a batch queue."""
BODY_BYTES_MAX = 64 << 20
"""Unpacked bodies of one batch: small compressed ones may become large."""
_ARROW_BYTES_MAX = 0x7FFFFFFF
_NINE_DIGITS = 999_999_999
_STORE_MS = layout.STORE_MS_AT - 8, 1  # position without the hosts before it, and how many these are
_RECONSUME = 56, 2
_NOTHING: Mapping[str, pa.Array] = MappingProxyType({})
_NO_BODIES: dict[int, bytes | None] = {}


def record_starts(data: bytes | bytearray | memoryview) -> list[int]:
    """Positions of the records in a pull answer. ProtocolError if the bytes are not whole records."""
    found, position, _status = walk(data, -1)
    if position != len(data):
        raise ProtocolError(f"a pull answer of {len(data)} bytes is not whole records: broken at byte {position}")
    starts: list[int] = np.frombuffer(found, dtype=np.int64).tolist()
    return starts


def record_batch(records: Records, broker_name: str, schema: pa.Schema) -> pa.RecordBatch:
    """All records as one batch, however large their bodies become. ProtocolError, RecordError as `record_batches`."""
    (batch,) = record_batches(records, broker_name, schema, body_bytes_max=_ARROW_BYTES_MAX)
    return batch


def record_batches(
    records: Records,
    broker_name: str | None,
    schema: pa.Schema,
    *,
    lenient: bool = False,
    extra: Mapping[str, pa.Array] = _NOTHING,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Batches of exactly this schema: one, or more when compressed bodies grow beyond `body_bytes_max`.

    `extra` are columns made elsewhere. ProtocolError for a body with a wrong checksum, RecordError for one that cannot
    be unpacked; with `lenient` a row shows the one as it is stored and the other as null.
    """
    wants_bodies = "body" in schema.names
    if wants_bodies and not lenient:
        records.check_bodies()
    begin = 0
    for end, plain in records.unpacked(lenient, body_bytes_max) if wants_bodies else [(len(records), _NO_BODIES)]:
        part = records if end - begin == len(records) else records.take(slice(begin, end))
        columns = [
            extra[name].slice(begin, end - begin) if name in extra else part.column(name, broker_name, plain)
            for name in schema.names
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        begin = end


def are_held(ms: Ints) -> Bools:
    """True for each of these epoch milliseconds that a column shows."""
    return np.asarray((ms >= MS_MIN) & (ms <= MS_MAX))


def times(ms: Ints) -> pa.Array:
    """Epoch milliseconds as timestamps, null for one outside the years 1 to 9999."""
    held = are_held(ms)
    micros = pa.array(ms * 1000) if bool(held.all()) else pa.array(np.where(held, ms, 0) * 1000, mask=~held)
    return micros.view(pa.timestamp("us", "UTC"))


class Records:
    """The records of a chunk, seen as columns. ProtocolError if lengths inside a record do not fit.

    UsageError for a record of a batch queue, which holds many messages; with `inner_batches` it is one row.
    """

    def __init__(
        self, data: bytes | bytearray | memoryview, starts: Ints | Sequence[int], *, inner_batches: bool = False
    ) -> None:
        self.data = data
        self.starts: Ints = np.ascontiguousarray(starts, dtype=np.int64)
        self._inner_batches = inner_batches
        self._form = best_form(data, self.starts)
        if self._form.misfit >= 0:
            raise ProtocolError(f"record {self._form.misfit} of these has lengths that do not fit")
        if self._form.has_inner_batches and not inner_batches:
            raise UsageError("topics of batch queues (BatchCQ) are not supported yet", hint="read another topic")

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: slice | Ints | Bools) -> Records:
        """The records of this mask."""
        return Records(self.data, self.starts[rows], inner_batches=self._inner_batches)

    # -- fields --------------------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> Ints:
        """Bytes of each record."""
        return self._form.int32s(0, 0).astype(np.int64)

    @cached_property
    def sys_flags(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """System flag of each record."""
        return self._form.int32s(layout.SYS_FLAG_AT, 0)

    @cached_property
    def queue_ids(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Queue id of each record."""
        return self._form.int32s(layout.QUEUE_ID_AT, 0)

    @cached_property
    def queue_offsets(self) -> Ints:
        """Queue offset of each record."""
        return self._form.int64s(layout.QUEUE_OFFSET_AT, 0)

    @cached_property
    def physical_offsets(self) -> Ints:
        """Physical offset that each record names."""
        return self._form.int64s(layout.PHYSICAL_OFFSET_AT, 0)

    @cached_property
    def store_ms(self) -> Ints:
        """Store time of each record."""
        return self._form.int64s(*_STORE_MS)

    @cached_property
    def topics(self) -> pa.Array:
        """Topic of each record."""
        return self._texts.topics()

    def property_column(self, name: str) -> pa.Array:
        """The value of this property (the last, if repeated), null without one."""
        found = self._texts.named(name.encode())
        return pa.nulls(len(self), pa.string()) if found is None else found

    def property_values(self, name: str) -> list[str | None]:
        """The same as texts."""
        values: list[str | None] = self.property_column(name).to_pylist()
        return values

    @cached_property
    def _texts(self) -> Form:
        return self._form if self._form.is_text() else NumpyForm(self.data, self.starts)

    # -- bodies --------------------------------------------------------------------------------------------------------

    @cached_property
    def crc_ok(self) -> Bools:
        """True for each record whose body matches its checksum."""
        return self._form.crc_ok()

    def check_bodies(self) -> None:
        """Raises ProtocolError if a body does not match its checksum."""
        if not bool(self.crc_ok.all()):
            offset = int(self.queue_offsets[int(np.argmin(self.crc_ok))])
            raise ProtocolError(f"the body of the message at queue offset {offset} does not match its checksum")

    def unpacked(self, lenient: bool, bytes_max: int) -> Iterator[tuple[int, dict[int, bytes | None]]]:
        """(row behind a part, the unpacked bodies of its compressed rows), part by part; a part is one row at least."""
        plain: dict[int, bytes | None] = {}
        begin = size = 0
        for row in np.flatnonzero(self.sys_flags & sys_flag.COMPRESSED).tolist():
            body = self._unpacked(row, lenient)
            if plain and size + len(body or b"") > bytes_max:
                yield row, plain
                plain, begin, size = {}, row, 0
            plain[row - begin] = body
            size += len(body or b"")
        yield len(self), plain

    def _unpacked(self, row: int, lenient: bool) -> bytes | None:
        body = self._form.body(row)
        try:
            return decompress(body, int(self.sys_flags[row])) if body else body
        except RecordError:
            if lenient:
                return None
            raise

    # -- columns -------------------------------------------------------------------------------------------------------

    def column(self, name: str, broker_name: str | None, plain: dict[int, bytes | None]) -> pa.Array:
        """The column of this name; of rows in `plain` these are the bodies."""
        if name == "brokerName":
            return pa.nulls(len(self), pa.string()) if broker_name is None else pa.repeat(broker_name, len(self))
        if name == "body":
            return self._form.bodies(plain)
        return _COLUMNS[name](self)

    def int32s(self, at: int, hosts: int = 0) -> pa.Array:
        """The int32 at this position, behind so many host fields, of each record."""
        return pa.array(self._form.int32s(at, hosts))

    def int64s(self, at: int, hosts: int) -> pa.Array:
        """The int64 at this position."""
        return pa.array(self._form.int64s(at, hosts))

    def times(self, at: int, hosts: int) -> pa.Array:
        """The milliseconds at this position, as timestamps; null outside the years 1 to 9999."""
        return times(self._form.int64s(at, hosts))

    def message_ids(self, name: str) -> pa.Array:
        """The value of this property, or the id made of the store host and the physical offset."""
        return self._texts.message_ids(name.encode())

    def hosts(self, which: int) -> pa.Array:
        """Born host (0) or store host (1)."""
        return self._form.hosts(which)

    def maps(self) -> pa.Array:
        """All properties."""
        return self._texts.maps()


def _number(name: str, most: int, kind: pa.DataType, factor: int = 1) -> Callable[[Records], pa.Array]:
    digits_max = len(str(most))

    def number(text: str | None) -> int | None:
        if not text or len(text) > digits_max or not (text.isascii() and text.isdigit()) or int(text) > most:
            return None
        return int(text) * factor

    def column(records: Records) -> pa.Array:
        texts = records.property_column(name)
        if texts.null_count == len(records):
            return pa.nulls(len(records), kind)
        return pa.array([number(text) for text in texts.to_pylist()], pa.int64()).cast(kind)

    return column


def _text(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: records.property_column(name)


_COLUMNS: dict[str, Callable[[Records], pa.Array]] = {
    "topic": lambda records: records.topics,
    "queueId": lambda records: pa.array(records.queue_ids),
    "queueOffset": lambda records: pa.array(records.queue_offsets),
    "commitLogOffset": lambda records: pa.array(records.physical_offsets),
    "msgId": lambda records: records.message_ids(property_names.UNIQUE_KEY),
    "offsetMsgId": lambda records: records.message_ids(""),
    "tags": _text(property_names.TAGS),
    "keys": _text(property_names.KEYS),
    "shardingKey": _text(property_names.SHARDING_KEY),
    "bornTimestamp": lambda records: records.times(layout.BORN_MS_AT, 0),
    "storeTimestamp": lambda records: records.times(*_STORE_MS),
    "bornHost": lambda records: records.hosts(0),
    "storeHost": lambda records: records.hosts(1),
    "flag": lambda records: records.int32s(layout.FLAG_AT),
    "sysFlag": lambda records: pa.array(records.sys_flags),
    "reconsumeTimes": lambda records: records.int32s(*_RECONSUME),
    "bodyCRC": lambda records: records.int32s(layout.CRC_AT),
    "transactionId": _text(property_names.TRANSACTION_ID),
    "delayLevel": _number(property_names.DELAY, _NINE_DIGITS, pa.int32()),
    "deliverTimestamp": _number(property_names.TIMER_DELIVER_MS, MS_MAX, pa.timestamp("us", "UTC"), 1000),
    "priority": _number(property_names.PRIORITY, _NINE_DIGITS, pa.int32()),
    "liteTopic": _text(property_names.LITE_TOPIC),
    "properties": lambda records: records.maps(),
}
