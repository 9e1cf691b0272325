"""What gRPC adds to HTTP/2: five bytes before each message, a deadline in a header, the outcome in trailers.

Owns        these forms.
Must not know   streams, methods.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

from rocketlake.base.errors import RocketLakeError

__all__ = [
    "PREFIX_BYTES",
    "CallFailed",
    "GrpcStatus",
    "MessageReader",
    "frame",
    "is_whole",
    "outcome",
    "timeout_seconds",
]

PREFIX_BYTES: Final = 5
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT_DIGITS_MAX: Final = 8
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {0x25}
_TEXT_MAX: Final = 1000
_GZIP: Final = 31
"""zlib's number for the gzip format."""


class GrpcStatus(IntEnum):
    """The outcome of a call as gRPC counts it; what RocketMQ has to say stands in the messages."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallFailed(RocketLakeError):
    """The call ends with this outcome."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def frame(message: bytes) -> bytes:
    """The message with its prefix, not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def is_whole(data: bytes, bytes_max: int) -> bool:
    """True if these bytes are one message, not compressed, of at most `bytes_max`."""
    size = len(data) - PREFIX_BYTES
    return 0 <= size <= bytes_max and data[0] == 0 and int.from_bytes(data[1:PREFIX_BYTES], "big") == size


def timeout_seconds(text: bytes) -> float:
    """The value of grpc-timeout. CallFailed for another form."""
    digits, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _TIMEOUT_DIGITS_MAX:
        raise CallFailed(GrpcStatus.INVALID_ARGUMENT, "grpc-timeout is no time: write 3S, 500m")
    return int(digits) * unit


def outcome(status: GrpcStatus, text: str = "") -> list[tuple[bytes, bytes]]:
    """The trailers that end a call. The text is percent-coded, as gRPC wants it."""
    trailers = [(b"grpc-status", b"%d" % status)]
    if text:
        raw = text[:_TEXT_MAX].encode()
        trailers.append((b"grpc-message", b"".join(b"%c" % c if c in _PLAIN else b"%%%02X" % c for c in raw)))
    return trailers


class MessageReader:
    """Puts the messages of one stream together from its parts."""

    __slots__ = ("_bytes_max", "_encoding", "_parts")

    def __init__(self, bytes_max: int, encoding: bytes = b"") -> None:
        """`encoding`: the header grpc-encoding."""
        self._bytes_max = bytes_max
        self._encoding = encoding
        self._parts = bytearray()

    @property
    def begun_bytes(self) -> int:
        """Bytes of the message that is begun and not whole; 0 between two messages."""
        return len(self._parts)

    def take(self, data: bytes) -> list[bytes]:
        """The messages that are whole with this part. CallFailed for one that is too large or cannot be read."""
        self._parts += data
        messages = []
        start = 0
        while len(self._parts) - start >= PREFIX_BYTES:
            size = self._size(self._parts, start)
            end = start + PREFIX_BYTES + size
            if len(self._parts) < end:
                break
            messages.append(self._read(self._parts[start], bytes(self._parts[start + PREFIX_BYTES : end])))
            start = end
        del self._parts[:start]
        return messages

    def _size(self, data: bytes | bytearray, start: int = 0) -> int:
        size = int.from_bytes(data[start + 1 : start + PREFIX_BYTES], "big")
        if size > self._bytes_max:
            raise CallFailed(
                GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {size} bytes, at most {self._bytes_max} are taken"
            )
        return size

    def _read(self, flag: int, message: bytes) -> bytes:
        if flag == 0:
            return message
        if flag != 1 or self._encoding != b"gzip":
            raise CallFailed(GrpcStatus.UNIMPLEMENTED, "send messages as they are, or with grpc-encoding gzip")
        packed = zlib.decompressobj(_GZIP)
        try:
            plain = packed.decompress(message, self._bytes_max)
        except zlib.error as error:
            raise CallFailed(GrpcStatus.INVALID_ARGUMENT, f"a message is no gzip: {error}") from None
        if packed.unconsumed_tail or not packed.eof:
            raise CallFailed(
                GrpcStatus.RESOURCE_EXHAUSTED, f"an unpacked message is cut short, or above {self._bytes_max} bytes"
            )
        return plain
