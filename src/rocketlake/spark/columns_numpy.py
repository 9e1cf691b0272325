"""The Python form of records seen as columns: fixed fields and properties of all records at once, by numpy.

Owns        the arrays that the kernel of codec/record_columns.pyx fills where that is compiled; where the two differ,
            this module is right.
Must not know   names of columns, checksums that do not hold, compression (columns.py).

Bytes: docs/internals/record.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from rocketlake.base.crc32 import crc32
from rocketlake.codec import record_layout as layout
from rocketlake.model import sys_flag
from rocketlake.spark.host_text import host_text

__all__ = ["NumpyForm"]

Ints = np.ndarray[Any, np.dtype[np.int64]]

_NAME_END, _VALUE_END = 1, 2


class NumpyForm:
    """See columns.Form."""

    def __init__(self, data: bytes | bytearray | memoryview, starts: Ints) -> None:
        self._data = bytes(data)
        self._bytes = np.frombuffer(self._data, dtype=np.uint8)
        self._at = starts
        self.misfit = -1
        flags = self._numbers(layout.SYS_FLAG_AT, ">i4")
        self.has_inner_batches = bool((flags & sys_flag.INNER_BATCH).any())
        born = np.where(flags & sys_flag.BORN_HOST_V6, 20, 8)
        both = born + np.where(flags & sys_flag.STORE_HOST_V6, 20, 8)
        self._hosts: tuple[Ints | int, Ints, Ints] = (0, born, both)
        self._measure()

    def _measure(self) -> None:
        end = self._at + self._numbers(0, ">i4")
        self._body_start: Ints = self._at + 72 + self._hosts[2]
        if not self._fits(self._body_start + 3 <= end):
            return
        body_size = self._numbers(68 + self._hosts[2], ">i4")
        self._body_end: Ints = self._body_start + body_size
        wide = self._numbers(layout.MAGIC_AT, ">i4") == layout.MAGIC_V2
        if not self._fits((body_size >= 0) & (self._body_end + 3 + wide <= end)):
            return
        first, second = self._bytes[self._body_end], self._bytes[self._body_end + 1]
        topic_size = np.where(wide, first.astype(np.int64) << 8 | second, first)
        self._topic_start: Ints = self._body_end + 1 + wide
        self._topic_end: Ints = self._topic_start + topic_size
        if not self._fits(self._topic_end + 2 <= end):
            return
        high, low = self._bytes[self._topic_end].astype(np.int64), self._bytes[self._topic_end + 1]
        self._properties_start: Ints = self._topic_end + 2
        self._properties_end: Ints = self._properties_start + (high << 8 | low)
        self._fits(self._properties_end <= end)

    def _fits(self, holds: np.ndarray[Any, np.dtype[np.bool_]]) -> bool:
        if not bool(holds.all()):
            self.misfit = int(np.argmin(holds))
        return self.misfit < 0

    def _numbers(self, at: Ints | int, kind: str) -> Ints:
        cells = self._bytes[(self._at + at)[:, None] + np.arange(int(kind[2]))]
        numbers: Ints = cells.view(kind)[:, 0].astype(np.int64)
        return numbers

    def int32s(self, at: int, hosts: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return self._numbers(at + self._hosts[hosts], ">i4").astype(np.int32)

    def int64s(self, at: int, hosts: int) -> Ints:
        return self._numbers(at + self._hosts[hosts], ">i8")

    def _slices(self, start: Ints, end: Ints) -> list[bytes]:
        data = self._data
        return [data[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)]

    def crc_ok(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        sums = [crc32(body) for body in self._slices(self._body_start, self._body_end)]
        equal: np.ndarray[Any, np.dtype[np.bool_]] = np.asarray(sums, dtype=np.int64) == self._numbers(
            layout.CRC_AT, ">i4"
        )
        return equal

    def body(self, row: int) -> bytes:
        return self._data[int(self._body_start[row]) : int(self._body_end[row])]

    def bodies(self, instead: dict[int, bytes | None]) -> pa.Array:
        bodies: list[bytes | None] = [*self._slices(self._body_start, self._body_end)]
        for row, body in instead.items():
            bodies[row] = body
        return pa.array(bodies, pa.binary())

    def is_text(self) -> bool:
        """Text that is no UTF-8 becomes U+FFFD here, as Java reads it."""
        return True

    def topics(self) -> pa.Array:
        names = self._slices(self._topic_start, self._topic_end)
        return pa.array([name.decode(errors="replace") for name in names], pa.string())

    @cached_property
    def _properties(self) -> _Properties:
        return _Properties(self._slices(self._properties_start, self._properties_end))

    def named(self, name: bytes) -> pa.Array | None:
        values = self._properties.named(name)
        return None if values is None else pa.array(values, pa.string())

    def maps(self) -> pa.Array:
        return self._properties.as_map()

    def _host(self, which: int) -> list[bytes]:
        start = self._at + layout.BORN_HOST_AT + which * 8 + self._hosts[which]
        return self._slices(start, start + self._hosts[which + 1] - self._hosts[which])

    def hosts(self, which: int) -> pa.Array:
        raw = self._host(which)
        text = {host: host_text(host) for host in set(raw)}
        return pa.array([text[host] for host in raw], pa.string())

    def message_ids(self, name: bytes) -> pa.Array:
        # The id is the store host, port and offset in hex, as they lie in the record (model/message_id.py).
        offsets = self._slices(self._at + layout.PHYSICAL_OFFSET_AT, self._at + layout.SYS_FLAG_AT)
        own = [(host + offset).hex().upper() for host, offset in zip(self._host(1), offsets, strict=True)]
        given = (self._properties.named(name) if name else None) or [None] * len(own)
        return pa.array([one or other for one, other in zip(given, own, strict=True)], pa.string())


class _Properties:
    """Properties of many records, cut at once: entry k is blob[start[k]:middle[k]] = blob[middle[k]+1:end[k]]."""

    def __init__(self, blocks: list[bytes]) -> None:
        # Writers end each entry with \x02; the last \x02 of a block may be missing (docs/internals/record.md).
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

    def named(self, wanted: bytes) -> list[str | None] | None:
        """The value of this property per row (the last, if repeated); None if no row has it."""
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
