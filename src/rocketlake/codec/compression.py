"""Compressed bodies: ZLIB, LZ4 (frame format), Zstandard; gzip is read, never written.

Owns        compressing, decompressing with a bound on the result.
Must not know   when a body is worth compressing (client), records.

A peer may send a small body that would become gigabytes: nothing here makes more than the bound allows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import lz4.frame
import zstandard

from rocketlake.codec.record_layout import RecordError
from rocketlake.model.sys_flag import LZ4, ZLIB, ZSTD, compression_type

__all__ = ["DECOMPRESSED_BYTES_MAX", "GZIP", "LEVEL_DEFAULT", "PLAIN", "compress", "decompress", "form_at_start"]

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
LEVEL_DEFAULT = 5
"""The level of Java producers (compressLevel)."""
_ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_LZ4_MAGIC = bytes.fromhex("04224d18")
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_GZIP_MAGIC = bytes.fromhex("1f8b08")
_FORMS = {_LZ4_MAGIC: LZ4, _ZSTD_MAGIC: ZSTD}
_NAMES = {ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd"}
PLAIN = 0
GZIP = 8
"""Forms that no flag names."""
_ALSO = {ZLIB: (GZIP,)}
"""gRPC clients send gzip, and Apache's proxy marks it as zlib."""

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


def form_at_start(body: Buffer, sys_flag: int) -> int:
    """The form of a body that is marked as compressed, by its first bytes: what the flag names, GZIP, or PLAIN.

    RecordError if the flag names an unknown compression, or another one than that of the body. Cheap enough for every
    message; plain_send.pyx lets pass what has the form of its flag.
    """
    kind = compression_type(sys_flag)
    start = bytes(body[:4])
    if kind not in _NAMES:
        raise RecordError(f"the system flag {sys_flag} names compression {kind}, which nobody can read")
    # Two bytes of zlib: method "deflate", then a check of both.
    is_zlib = len(start) > 1 and start[0] & 15 == 8 and (start[0] << 8 | start[1]) % 31 == 0
    if is_zlib:
        form = ZLIB
    elif start.startswith(_GZIP_MAGIC):
        form = GZIP
    else:
        form = _FORMS.get(start, PLAIN)
    needs_dictionary = is_zlib and start[1] & 32  # a reader would not have it
    if form not in (kind, PLAIN, *_ALSO.get(kind, ())) or needs_dictionary:
        raise RecordError(f"the body is not compressed as its system flag {sys_flag} says ({_NAMES[kind]})")
    return form


def decompress(body: Buffer, sys_flag: int, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The body before compression, at most `limit` bytes. RecordError if it is broken, cut short or larger.

    A body in no compressed form is given as it is, though it is marked: a gRPC client may name a compression that it
    did not do.
    """
    form = form_at_start(body, sys_flag)
    try:
        plain, is_whole = _UNPACK[form](body, limit + 1)
    except (zlib.error, RuntimeError, zstandard.ZstdError, EOFError) as error:
        raise RecordError(f"compressed body of {len(body)} bytes is broken: {error}") from error
    if len(plain) > limit:
        raise RecordError(f"compressed body of {len(body)} bytes becomes more than {limit} bytes")
    if not is_whole:
        raise RecordError(f"compressed body of {len(body)} bytes ends too early")
    return plain


def _as_it_is(body: Buffer, _bytes_max: int) -> tuple[bytes, bool]:
    return bytes(body), True


def _inflate(body: Buffer, bytes_max: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj()
    return machine.decompress(body, bytes_max), machine.eof


def _gunzip(body: Buffer, bytes_max: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    plain = machine.decompress(body, bytes_max)
    if machine.unused_data.startswith(_GZIP_MAGIC):
        raise EOFError("a second gzip member lies behind its end")
    return plain, machine.eof


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


_UNPACK: dict[int, Callable[[Buffer, int], tuple[bytes, bool]]] = {
    PLAIN: _as_it_is, ZLIB: _inflate, GZIP: _gunzip, LZ4: _unpack_lz4, ZSTD: _unpack_zstd,
}  # fmt: skip
