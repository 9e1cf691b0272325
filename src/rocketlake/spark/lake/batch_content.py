"""The content of a batch for one table: the number of rows, and a digest that does not depend on their order.

Owns        the digest: its columns, and how values become numbers.
Must not know   tables, Spark.

A batch that is repeated may come in other pieces, from other tasks, in another order; with other rows it must be
refused. The digest knows rows with a place in a queue by that place, and other rows by all columns but floating point
numbers: sums of these may differ in the last digit when they are computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketlake.spark.lake.offset_ranges import QUEUE_COLUMNS

__all__ = ["BatchContent", "content_of"]

_Numbers = NDArray[np.uint64]
_MASK = (1 << 64) - 1
_ALL = 0x7FFFFFFF
_NULL = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class BatchContent:
    """The content of no rows at first; contents can be added."""

    rows: int = 0
    digest: int = 0

    def __add__(self, other: BatchContent) -> BatchContent:
        return BatchContent(self.rows + other.rows, (self.digest + other.digest) & _MASK)

    def differs(self, other: BatchContent) -> bool:
        """True if the contents differ; false if one of them was not computed (compareReplays = false)."""
        return self != other and 0 not in (self.digest, other.digest)

    def to_text(self) -> str:
        """The form in commits."""
        return f"{self.rows}:{self.digest:016x}"

    @classmethod
    def from_text(cls, text: str) -> BatchContent | None:
        """Read the form in commits; None for a commit of a release that kept no content."""
        rows, _, digest = text.partition(":")
        return cls(int(rows), int(digest, 16)) if digest else None


def content_of(batch: pa.RecordBatch) -> BatchContent:
    """The content of these rows."""
    names = batch.schema.names
    if set(QUEUE_COLUMNS) <= set(names):
        names = list(QUEUE_COLUMNS)
    rows = np.zeros(len(batch), np.uint64)
    for name in names:
        column = batch.column(batch.schema.get_field_index(name))
        if not pa.types.is_floating(column.type):
            rows = _mixed(rows * np.uint64(31) + _numbers(column) + np.uint64(_digest(name.encode())))
    return BatchContent(len(batch), int(rows.sum(dtype=np.uint64)))


def _numbers(column: pa.Array) -> _Numbers:
    """A number for each value: equal ones for equal values."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    elif pa.types.is_date32(kind):
        column = pc.cast(column, pa.int32())
    elif pa.types.is_temporal(kind):
        column = pc.cast(column, pa.int64())
    if pa.types.is_integer(column.type):
        numbers: _Numbers = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)
    elif pa.types.is_nested(column.type):
        numbers = np.array([_digest(text.encode()) for text in _texts(column)], np.uint64)
    else:
        texts = pc.cast(column, pa.binary() if _is_bytes(column.type) else pa.string()).dictionary_encode()
        digests = np.array([_digest(_bytes(value)) for value in texts.dictionary.to_pylist()] + [0], np.uint64)
        numbers = digests[pc.fill_null(texts.indices, len(digests) - 1).to_numpy(zero_copy_only=False)]
    if column.null_count:
        return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), np.uint64(_NULL), numbers)
    return numbers


def _texts(column: pa.Array) -> list[str]:
    try:
        return [repr(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # a time that Python does not hold: this row alone is told in Arrow's words
        if len(column) == 1:
            return [column.to_string(window=_ALL, container_window=_ALL, element_size_limit=_ALL)]
        return [text for row in range(len(column)) for text in _texts(column.slice(row, 1))]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def _mixed(numbers: _Numbers) -> _Numbers:
    """Each number with its bits spread (splitmix64), so that sums of rows tell rows apart."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
