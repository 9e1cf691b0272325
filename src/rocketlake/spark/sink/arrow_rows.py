"""One Arrow batch in the sink: its columns taken apart for the encoder, its faulty rows marked.

Owns        the meaning of columns, casts of odd Arrow types, the choice between the kernel and its Python form.
Must not know   queues, sending, the fate of a faulty row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.base.pure_import import has_kernel
from rocketlake.model.message import Message
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions
from rocketlake.spark.sink.plain_rows import PlainRows, Row, is_left_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ArrowRows", "Encoding"]

PROPERTIES_BYTES_MAX = 32_000
"""Limit of a row's properties: brokers take 32,767 bytes, with properties of their own."""
MESSAGES_MAX = 2000
"""Messages of one request, which a broker serves in one piece."""
_DELAY_LEVEL_MAX = 18
_PRIORITY_MAX = (1 << 31) - 1
_HAS_KERNEL = has_kernel("rocketlake.codec.column_batch")
_LEAVE_OUT, _WRITE, _NO_NAME = 0, 1, 2


class Encoding:
    """The encoding of one task's rows: limits, and the start of their keys."""

    def __init__(
        self, options: SinkOptions, unique_prefix: bytes, key_prefix: bytes, *, own_property_bytes: int = 0
    ) -> None:
        """`unique_prefix`: 24 hex digits; `key_prefix`: the start of each row's key, or b"".

        `own_property_bytes`: room for properties that the caller adds to each message.
        """
        self.options = options
        self.unique_prefix = unique_prefix
        self.key_prefix = key_prefix
        self.row_key_bytes = (len(key_prefix) + 20 if key_prefix else 0) + own_property_bytes


class ArrowRows:
    """The rows of `batch`; `first_number` is the number of its first row in the task."""

    def __init__(self, batch: pa.RecordBatch, columns: InputColumns, encoding: Encoding, first_number: int) -> None:
        self.count = batch.num_rows
        self.first_number = first_number
        self._batch = batch
        self._columns = columns
        self._encoding = encoding
        self._encoder = self._kernel() if _HAS_KERNEL else self._plain
        self.faults: NDArray[np.uint8] = np.frombuffer(self._encoder.faults, np.uint8).copy()
        self._find_other_faults()

    def encode(self, rows: NDArray[np.int32], start: int) -> tuple[bytes, int]:
        """(batch body, rows taken) of `rows[start:]`, as far as they fit into one request."""
        encoding = self._encoding
        body, taken = self._encoder.encode(
            rows,
            start,
            encoding.options.batch_bytes,
            MESSAGES_MAX,
            encoding.unique_prefix,
            encoding.key_prefix,
            self.first_number,
        )
        return body, taken

    def message(self, topic: str, row: int) -> Message:
        """One row as a message of its own."""
        encoding = self._encoding
        return self._plain.message(topic, row, encoding.unique_prefix, encoding.key_prefix, self.first_number)

    def body(self, row: int) -> bytes:
        """The body of a row, b"" without one."""
        column = self._flat("body")
        value = None if column is None else column[row].as_py()
        return value.encode() if isinstance(value, str) else value or b""

    def column(self, name: str) -> pa.Array | None:
        """A column; None if it is missing or all null."""
        if name not in self._columns:
            return None
        column = self._batch.column(self._columns.places[name])
        return None if column.null_count == len(column) else column

    def whole_numbers(self, name: str, missing: int) -> NDArray[np.int64] | None:
        """A column of numbers, `missing` for null; None without the column."""
        column = self.column(name)
        if column is None:
            return None
        numbers: NDArray[np.int64] = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
        return numbers

    @cached_property
    def delay_levels(self) -> NDArray[np.int64] | None:
        """Delay level by row, 0 for none; None when no row is delayed."""
        levels = self.whole_numbers("delayLevel", 0)
        return None if levels is None or not levels.any() else levels

    @cached_property
    def priorities(self) -> NDArray[np.int64] | None:
        """Priority by row, below 0 for none; None when no row has one."""
        return self.whole_numbers("priority", -1)

    # -- faults --------------------------------------------------------------------------------------------------------

    def fault(self, where: NDArray[np.bool_], fault: Fault) -> None:
        """Mark the rows of this mask with a fault; an earlier mark stays."""
        self.faults[where & (self.faults == Fault.NONE)] = fault

    def _find_other_faults(self) -> None:
        times = self.column("deliverTimestamp")
        if times is not None:
            self.fault(_are_given(times), Fault.DELIVER_TIMESTAMP)
        levels = self.delay_levels
        if levels is not None:
            self.fault((levels < 0) | (levels > _DELAY_LEVEL_MAX), Fault.DELAY_LEVEL)
            if self._encoding.options.is_repeatable:
                self.fault(levels > 0, Fault.DELAYED_IN_SEQUENCE)
        self._find_faulty_priorities()

    def _find_faulty_priorities(self) -> None:
        column, priorities, levels = self.column("priority"), self.priorities, self.delay_levels
        if column is None or priorities is None:
            return
        given = _are_given(column)
        self.fault(given & ((priorities < 0) | (priorities > _PRIORITY_MAX)), Fault.PRIORITY)
        if levels is not None:
            self.fault(given & (levels > 0), Fault.PRIORITY_COMBINED)
        sharding_keys = self._flat("shardingKey")
        if sharding_keys is not None:
            sizes = pc.binary_length(sharding_keys).fill_null(0).to_numpy(zero_copy_only=False)
            self.fault(given & (sizes > 0), Fault.PRIORITY_COMBINED)
        if self._encoding.options.is_repeatable:
            self.fault(given, Fault.PRIORITY_IN_SEQUENCE)

    # -- columns for the encoder ---------------------------------------------------------------------------------------

    def _flat(self, name: str) -> pa.Array | None:
        """A column of texts or bytes with offsets of 32 bits."""
        column = self.column(name)
        if column is not None and not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            column = column.cast(pa.binary() if name == "body" else pa.string())
        return column

    def _kernel(self) -> Any:
        from rocketlake.codec import column_batch

        options = self._encoding.options
        return column_batch.ColumnBatch(
            self.count,
            _buffers(self._flat("body")),
            _buffers(self._flat("tags")),
            _buffers(self._flat("keys")),
            _buffers(self._flat("shardingKey")),
            self._properties(),
            options.message_bytes_max,
            PROPERTIES_BYTES_MAX,
            self._encoding.row_key_bytes,
        )

    def _properties(self) -> tuple[Any, ...] | None:
        column = self.column("properties")
        if column is None:
            return None
        validity, offsets = column.buffers()[:2]
        values = column.items if pa.types.is_string(column.items.type) else column.items.cast(pa.string())
        names = column.keys.dictionary_encode()
        texts = names.dictionary.to_pylist()
        uses = bytes(_use(text) for text in texts)
        numbers = names.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return (validity, offsets, column.offset), _buffers(values), numbers, [text.encode() for text in texts], uses

    @cached_property
    def _plain(self) -> PlainRows:
        """The Python form of the rows: for rows sent one by one, and without a kernel."""
        texts = [self._listed(name) for name in ("tags", "keys", "shardingKey", "properties")]
        bodies = [value.encode() if isinstance(value, str) else value for value in self._listed("body")]
        rows = [
            Row(body, tags, keys, sharding, properties or ())  # a map is a list of pairs in Arrow
            for body, tags, keys, sharding, properties in zip(bodies, *texts, strict=True)
        ]
        options = self._encoding.options
        return PlainRows(rows, options.message_bytes_max, PROPERTIES_BYTES_MAX, self._encoding.row_key_bytes)

    def _listed(self, name: str) -> Sequence[Any]:
        column = self.column(name)
        return [None] * self.count if column is None else column.to_pylist()


def _are_given(column: pa.Array) -> NDArray[np.bool_]:
    given: NDArray[np.bool_] = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return given


def _buffers(column: pa.Array | None) -> tuple[Any, Any, Any, int] | None:
    if column is None:
        return None
    validity, offsets, data = column.buffers()
    return validity, offsets, data, column.offset


def _use(name: str) -> int:
    if is_left_out(name):
        return _LEAVE_OUT
    return _NO_NAME if "\x01" in name or "\x02" in name else _WRITE
