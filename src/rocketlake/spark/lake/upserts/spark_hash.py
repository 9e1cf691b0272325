"""Spark's hash of a key, so that `repartition(8, "id")` brings all rows of a bucket to one task.

Owns        Murmur3 as Spark's hash() computes it, for the types of keys.
Must not know   buckets, tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["buckets_of"]

_Words = NDArray[np.uint32]
_SEED = 42


def buckets_of(keys: Sequence[pa.ChunkedArray], count: int) -> NDArray[np.int64]:
    """pmod(hash(keys), count) for each row. Types: bigint, string, date."""
    hashes = np.full(len(keys[0]), _SEED, np.uint32)
    for column in keys:
        hashes = _hashed(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, hashes)
    return hashes.view(np.int32).astype(np.int64) % count


def _hashed(column: pa.Array, seeds: _Words) -> _Words:
    if pa.types.is_string(column.type):
        made = _of_texts(column, seeds)
    elif pa.types.is_date32(column.type):
        days = pc.fill_null(pc.cast(column, pa.int32()), 0).to_numpy(zero_copy_only=False)
        made = _finished(_mixed(seeds, days.view(np.uint32)), np.uint32(4))
    else:
        numbers = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)
        low, high = numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)
        made = _finished(_mixed(_mixed(seeds, low), high), np.uint32(8))
    if column.null_count:
        return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), seeds, made)
    return made


def _of_texts(column: pa.Array, seeds: _Words) -> _Words:
    plain = pc.cast(pc.fill_null(column, ""), pa.large_binary())
    ends = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + len(plain) + 1]
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    lengths = np.diff(ends)
    made = seeds.copy()
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        texts = data[ends[rows][:, None] + np.arange(length)]
        hashes, whole = made[rows], int(length) // 4 * 4
        for word in np.ascontiguousarray(texts[:, :whole]).view("<u4").T:
            hashes = _mixed(hashes, word)
        for byte in texts[:, whole:].view(np.int8).T:
            hashes = _mixed(hashes, byte.astype(np.int32).view(np.uint32))
        made[rows] = _finished(hashes, np.uint32(length))
    return made


def _mixed(hashes: _Words, words: _Words) -> _Words:
    words = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: _Words, length: np.uint32) -> _Words:
    hashes = hashes ^ length
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _turned(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
