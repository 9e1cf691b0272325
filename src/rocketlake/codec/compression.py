"""Compressed bodies: ZLIB, LZ4 (frame format), Zstandard.

Owns        compressing, decompressing with a bound on the result.
Must not know   when a body is worth compressing (client), records.

A peer may send a small body that would become gigabytes: nothing here makes more than the bound allows.
"""

from __future__ import annotations

import zlib

import lz4.frame
import zstandard

from rocketlake.codec.record_layout import RecordError
from rocketlake.model.sys_flag import COMPRESSED, LZ4, ZLIB, ZSTD, compression_type

__all__ = ["DECOMPRESSED_BYTES_MAX", "LEVEL_DEFAULT", "compress", "decompress", "fault_at_start"]

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
LEVEL_DEFAULT = 5
"""The level of Java producers (compressLevel)."""
_ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_LZ4_MAGIC = bytes.fromhex("04224d18")
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_NAMES = {ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd"}

Buffer = bytes | bytearray | memoryview


def compress(body: Buffer, kind: int = ZLIB, level: int = LEVEL_DEFAULT) -> bytes:
    """The compressed body; `kind` is LZ4, ZSTD or ZLIB of model.sys_flag. ValueError for another number."""
    if kind == ZLIB:
        return zlib.compress(body, level)
    if kind == LZ4:
        packed: bytes = lz4.frame.compress(body, compression_level=0, content_checksum=False, store_size=False)
        return packed
    if kind == ZSTD:
        return bytes(zstandard.ZstdCompressor(level=level).compress(body))
    raise ValueError(f"unknown compression {kind}")


def fault_at_start(body: Buffer, sys_flag: int) -> str:
    """Why a body cannot be compressed as the flag says, judged by its first bytes; "" when it may be.

    Cheap enough for every message; plain_send.pyx says the same.
    """
    kind = compression_type(sys_flag)
    if not sys_flag & COMPRESSED:
        return ""
    start = bytes(body[:4])
    if kind == ZLIB:
        # Two bytes: method "deflate", then a check of both; no dictionary, which a reader would not have.
        is_good = len(start) > 1 and start[0] & 15 == 8 and (start[0] << 8 | start[1]) % 31 == 0 and not start[1] & 32
    elif kind == LZ4:
        is_good = start == _LZ4_MAGIC
    elif kind == ZSTD:
        is_good = start == _ZSTD_MAGIC
    else:
        return f"the system flag {sys_flag} names compression {kind}, which nobody can read"
    return "" if is_good else f"the body is not compressed as its system flag {sys_flag} says ({_NAMES[kind]})"


def decompress(body: Buffer, sys_flag: int, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The body before compression, at most `limit` bytes. RecordError if it is broken, cut short or larger."""
    kind = compression_type(sys_flag)
    try:
        if kind == ZLIB:
            plain, is_whole = _inflate(body, limit + 1)
        elif kind == LZ4:
            plain, is_whole = _unpack_lz4(body, limit + 1)
        elif kind == ZSTD:
            plain, is_whole = _unpack_zstd(body, limit + 1)
        else:
            raise RecordError(f"unknown compression {kind} in system flag {sys_flag}")
    except (zlib.error, RuntimeError, zstandard.ZstdError, EOFError) as error:
        raise RecordError(f"compressed body of {len(body)} bytes is broken: {error}") from error
    if len(plain) > limit:
        raise RecordError(f"compressed body of {len(body)} bytes becomes more than {limit} bytes")
    if not is_whole:
        raise RecordError(f"compressed body of {len(body)} bytes ends too early")
    return plain


def _inflate(body: Buffer, bytes_max: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj()
    return machine.decompress(body, bytes_max), machine.eof


def _unpack_lz4(body: Buffer, bytes_max: int) -> tuple[bytes, bool]:
    machine = lz4.frame.LZ4FrameDecompressor()
    plain: bytes = machine.decompress(body, max_length=bytes_max)
    return plain, machine.eof


def _unpack_zstd(body: Buffer, bytes_max: int) -> tuple[bytes, bool]:
    machine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    with machine.stream_reader(body) as reader:
        pieces = []
        left = bytes_max
        while left > 0 and (piece := reader.read(left)):
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces), left <= 0 or _is_whole_zstd(body)


def _is_whole_zstd(body: Buffer) -> bool:
    """True if the frame ends inside of `body`. The reader takes a frame cut between two blocks for a short one."""
    frame = zstandard.get_frame_parameters(body)
    position = zstandard.frame_header_size(body)
    is_last = False
    while not is_last:
        if position + 3 > len(body):
            return False
        block = int.from_bytes(body[position : position + 3], "little")
        is_last = bool(block & 1)
        position += 3 + (1 if (block >> 1) & 3 == 1 else block >> 3)  # a run-length block holds one byte
    return position + (4 if frame.has_checksum else 0) <= len(body)
