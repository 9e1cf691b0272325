"""The checksum of record bodies.

Owns        CRC-32 as RocketMQ stores it.
Must not know   where it is stored.
"""

from __future__ import annotations

import zlib

__all__ = ["crc32"]


def crc32(data: bytes | bytearray | memoryview) -> int:
    """CRC-32 (zlib's polynomial) without the top bit: Java keeps it as a non-negative int."""
    return zlib.crc32(data) & 0x7FFFFFFF
