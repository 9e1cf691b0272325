"""A store directory of any size within seconds, for the scan's load: commit log, consume queues, checkpoint.

Owns        the bytes of equally long plain records, written by the million.
Must not know   Spark, what is measured.

No broker writes it: that would take minutes. tests/unit/bench/test_store_files.py reads it as a broker would.
"""

from __future__ import annotations

import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode as encode_properties
from rocketlake.codec.record import encode_blank, encode_record

__all__ = ["write_store"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

TOPIC = "bench"
QUEUES = 4
_HOST = encode_host("10.0.0.1", 10911)
_DIGITS = 8
_BLOCK_ROWS = 4096


def write_store(root: Path, *, body_bytes: int, rows: int, file_bytes: int = 1 << 30) -> int:
    """Write `rows` messages; returns the bytes of the log that are used. `root` must not have a store yet."""
    now_ms = int(time.time() * 1000)
    body = bytes(range(256)) * (body_bytes // 256 + 1)
    block, marks = _template(body[:body_bytes])
    (root / "commitlog").mkdir(parents=True)
    size = len(block)
    entries = np.zeros(rows, dtype=[("place", ">i8"), ("size", ">i4"), ("tag", ">i8")])
    entries["size"], entries["tag"] = size, _tag_hash("TagA")
    row, start = 0, 0
    while row < rows:
        count = min(rows - row, (file_bytes - 8) // size)
        with (root / "commitlog" / f"{start:020d}").open("wb") as file:
            for first in range(row, row + count, _BLOCK_ROWS):
                numbers = np.arange(first, min(first + _BLOCK_ROWS, row + count))
                places = start + (numbers - row) * size
                entries["place"][numbers] = places
                file.write(_records(block, marks, numbers, places, now_ms).tobytes())
            file.write(encode_blank(file_bytes - count * size) if row + count < rows else b"")
            file.truncate(file_bytes)
        row, start = row + count, start + file_bytes
    for queue in range(QUEUES):
        _write_queue(root / "consumequeue" / TOPIC / str(queue), entries[queue::QUEUES].tobytes())
    (root / "checkpoint").write_bytes(struct.pack(">5q", now_ms + rows, now_ms + rows, 0, 0, 0).ljust(4096, b"\0"))
    return rows * size


def _template(body: bytes) -> tuple[Bytes, tuple[int, int]]:
    """One record, and where the eight digits of its key and of its unique key stand."""
    digits = "#" * _DIGITS
    properties = {"TAGS": "TagA", "KEYS": "k" + digits, "UNIQ_KEY": "0A0000010000002A9F" + digits, "WAIT": "true"}
    record = encode_record(
        TOPIC.encode(), body, encode_properties(properties), queue_id=0, flag=0, queue_offset=0, physical_offset=0,
        sys_flag=0, born_ms=0, born_host=_HOST, store_ms=0, store_host=_HOST, reconsume_times=0,
        prepared_transaction_offset=0, body_crc=zlib.crc32(body) & 0x7FFFFFFF,
    )  # fmt: skip
    first = record.index(b"#" * _DIGITS, 88 + len(body))
    second = record.index(b"#" * _DIGITS, first + _DIGITS)
    return np.frombuffer(bytes(record), dtype=np.uint8), (first, second)


def _records(block: Bytes, marks: tuple[int, int], numbers: Ints, places: Ints, now_ms: int) -> Bytes:
    records = np.tile(block, (len(numbers), 1))
    _put(records, 12, (numbers % QUEUES).astype(">i4"))
    _put(records, 20, (numbers // QUEUES).astype(">i8"))
    _put(records, 28, places.astype(">i8"))
    for at in (40, 56):
        _put(records, at, (now_ms + numbers // 1000).astype(">i8"))
    for place in range(_DIGITS):
        digit = (numbers // 10 ** (_DIGITS - 1 - place) % 10 + 48).astype(np.uint8)
        for mark in marks:
            records[:, mark + place] = digit
    return records


def _put(records: Bytes, at: int, values: np.ndarray[Any, Any]) -> None:
    cells = np.ascontiguousarray(values).view(np.uint8).reshape(len(records), -1)
    records[:, at : at + cells.shape[1]] = cells


def _write_queue(folder: Path, entries: bytes, file_bytes: int = 6_000_000) -> None:
    folder.mkdir(parents=True)
    for start in range(0, max(len(entries), 1), file_bytes):
        with (folder / f"{start:020d}").open("wb") as file:
            file.write(entries[start : start + file_bytes])
            file.truncate(file_bytes)


def _tag_hash(tag: str) -> int:
    value = 0
    for unit in tag.encode():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
