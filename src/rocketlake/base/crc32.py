"""The checksum of record bodies.

Owns        CRC-32 as RocketMQ stores it; the choice between the kernel and zlib.
Must not know   records.
"""

from __future__ import annotations

import importlib

from rocketlake.base.pure_import import has_kernel

__all__ = ["crc32"]

# The kernel folds 64 bytes at a time; zlib before 1.3 does not.
_sum = importlib.import_module("rocketlake.base.checksum" if has_kernel("rocketlake.base.checksum") else "zlib").crc32


def crc32(data: bytes | bytearray | memoryview) -> int:
    """CRC-32 (zlib's polynomial) without the top bit: Java keeps it as a non-negative int."""
    return int(_sum(data)) & 0x7FFFFFFF
