"""The compiled form of records seen as columns: buffers filled by codec/record_columns.pyx, dressed as Arrow arrays.

Owns        which buffers make which array.
Must not know   names of columns, checksums that do not hold, compression (columns.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rocketlake.codec.record_columns import RecordColumns
from rocketlake.spark.host_text import host_text

__all__ = ["KernelForm"]


class KernelForm:
    """See columns.Form."""

    def __init__(self, data: bytes | bytearray | memoryview, starts: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        # Arrow's own memory: what a batch used is there, warm, for the next one.
        self._kernel = RecordColumns(data, starts, pa.allocate_buffer)
        self._rows = len(self._kernel)
        self.misfit = self._kernel.misfit
        self.has_inner_batches = self._kernel.has_inner_batches

    def int32s(self, at: int, hosts: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.frombuffer(self._kernel.int32s(at, hosts), dtype=np.int32)

    def int64s(self, at: int, hosts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.frombuffer(self._kernel.int64s(at, hosts), dtype=np.int64)

    def crc_ok(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.frombuffer(self._kernel.crc_ok(), dtype=np.bool_)

    def body(self, row: int) -> bytes:
        return self._kernel.body(row)

    def bodies(self, instead: dict[int, bytes | None]) -> pa.Array:
        return pa.Array.from_buffers(pa.binary(), self._rows, [*self._kernel.bodies(instead)])

    def is_text(self) -> bool:
        return self._kernel.is_text()

    def topics(self) -> pa.Array:
        return self._texts(*self._kernel.topics())

    def named(self, name: bytes) -> pa.Array | None:
        found = self._kernel.named(name)
        if found is None:
            return None
        validity, offsets, data, nulls = found
        return pa.Array.from_buffers(pa.string(), self._rows, [validity, offsets, data], null_count=nulls)

    def maps(self) -> pa.Array:
        rows, name_offsets, names, value_offsets, values, pairs = self._kernel.maps()
        return pa.MapArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), self._rows + 1, [None, rows]),
            pa.Array.from_buffers(pa.string(), pairs, [None, name_offsets, names]),
            pa.Array.from_buffers(pa.string(), pairs, [None, value_offsets, values]),
        )

    def message_ids(self, name: bytes) -> pa.Array:
        return self._texts(*self._kernel.message_ids(name))

    def hosts(self, which: int) -> pa.Array:
        return self._texts(*self._kernel.hosts(which, lambda raw: host_text(raw).encode()))

    def _texts(self, offsets: Any, data: Any) -> pa.Array:
        return pa.Array.from_buffers(pa.string(), self._rows, [None, offsets, data])
