"""The bits of a message's system flag.

Owns        the bit values, taking apart and putting together.
Must not know   how a body is compressed (codec/compression.py).

Source: Java MessageSysFlag; bits 8-10 tell the compression, 0 there means ZLIB (peers older than 4.9.3).
"""

from __future__ import annotations

__all__ = [
    "BORN_HOST_V6",
    "COMPRESSED",
    "COMPRESSION_MASK",
    "INNER_BATCH",
    "LZ4",
    "MULTI_TAGS",
    "NEED_UNWRAP",
    "STORE_HOST_V6",
    "TRANSACTION_COMMIT",
    "TRANSACTION_MASK",
    "TRANSACTION_NONE",
    "TRANSACTION_PREPARED",
    "TRANSACTION_ROLLBACK",
    "ZLIB",
    "ZSTD",
    "compression_type",
    "mark_compressed",
    "transaction_type",
]

COMPRESSED = 1
MULTI_TAGS = 2
TRANSACTION_NONE = 0
TRANSACTION_PREPARED = 4
TRANSACTION_COMMIT = 8
TRANSACTION_ROLLBACK = 12
TRANSACTION_MASK = 12
BORN_HOST_V6 = 16
STORE_HOST_V6 = 32
NEED_UNWRAP = 64
INNER_BATCH = 128
COMPRESSION_MASK = 0x700

LZ4 = 1
ZSTD = 2
ZLIB = 3


def compression_type(flag: int) -> int:
    """LZ4, ZSTD or ZLIB; another number if a peer made it up. Means something only with COMPRESSED."""
    return (flag & COMPRESSION_MASK) >> 8 or ZLIB


def mark_compressed(flag: int, kind: int) -> int:
    """The flag of a body compressed in this way (LZ4, ZSTD, ZLIB)."""
    return flag & ~COMPRESSION_MASK | COMPRESSED | kind << 8


def transaction_type(flag: int) -> int:
    """TRANSACTION_NONE, _PREPARED, _COMMIT or _ROLLBACK."""
    return flag & TRANSACTION_MASK
