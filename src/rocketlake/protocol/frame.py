"""Frames: the byte stream cut into commands, and a command written as bytes.

Owns        the eight bytes before every header, and the refusal of lying lengths.
Must not know   sockets, the meaning of commands.

Layout (docs/internals/wire.md, "Frame"), big-endian: total length int32 (all after itself), serialize type int8
(0 JSON, 1 binary), header length int24, header, body. Nothing is allocated for a length that was only announced.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Buffer, Codec, Command
from rocketlake.protocol.header_binary import decode_binary_header, encode_binary_header, fits_binary_header
from rocketlake.protocol.header_json import decode_json_header, encode_json_header
from rocketlake.protocol.limits import (
    DEFAULT_LIMITS,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    REMARK_CHARS_MAX,
    WireLimits,
)

__all__ = ["PREFIX_BYTES", "Codec", "Frame", "FrameReader", "decode_frame", "encode_command"]

PREFIX_BYTES: Final = 8

_JSON: Final = Codec.JSON
_ROCKETMQ: Final = Codec.ROCKETMQ

Frame: TypeAlias = tuple[int, bytes, bytes | None]
"""Serialize type, header, body (None when it has no byte)."""


class FrameReader:
    """Cuts a byte stream into frames.

    `feed` returns whole frames. The first lying length sets `error` and is final: frames before it are still
    returned, a further `feed` raises it.
    """

    __slots__ = ("_needed", "_pending", "_to_skip", "error", "frame_bytes_max", "header_bytes_max")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, header_bytes_max: int = HEADER_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.header_bytes_max = header_bytes_max
        self.error: ProtocolError | None = None
        self._pending = bytearray()
        self._needed = PREFIX_BYTES
        self._to_skip = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._pending)

    @property
    def is_inside(self) -> bool:
        """True while the start of a frame has come and its end has not, also if the frame is skipped."""
        return self._to_skip > 0 or len(self._pending) > 0

    def feed(self, data: Buffer) -> list[Frame]:
        """Takes the next bytes of the stream, returns the frames they complete."""
        if self.error is not None:
            raise self.error
        return self.cut(self.gather(data))

    def gather(self, data: Buffer) -> bytes:
        """Takes the next bytes of the stream, returns the bytes to be cut; b"" while the first frame is not whole.

        The caller must give the returned bytes to `cut`, starting at a frame boundary of its choice.
        """
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if not self._pending:
            return data if isinstance(data, bytes) else bytes(data)
        self._pending += data
        if len(self._pending) < self._needed:
            return b""
        whole = bytes(self._pending)
        self._pending = bytearray()
        return whole

    def begun(self) -> tuple[Frame, int] | None:
        """The incomplete frame without its body, and the size of the body; None until its header has come."""
        pending = self._pending
        head = int.from_bytes(pending[5:8], "big") + PREFIX_BYTES
        if len(pending) < head or head < PREFIX_BYTES or self._needed <= PREFIX_BYTES:
            return None
        return (pending[4], bytes(pending[PREFIX_BYTES:head]), None), self._needed - head

    def skip(self) -> None:
        """Drop the incomplete frame: its bytes that came, and those still to come."""
        self._to_skip = self._needed - len(self._pending)
        self._pending = bytearray()

    def cut(self, data: bytes, position: int = 0) -> list[Frame]:
        """The frames of gathered bytes from `position` on; an incomplete last one is kept."""
        frames: list[Frame] = []
        if not data:
            return frames
        end = len(data)
        self._needed = PREFIX_BYTES
        while end - position >= PREFIX_BYTES:
            # One byte after the other: in C the sum is 64 bits wide, while `byte << 24` alone would be 32.
            total = data[position]
            total = total << 8 | data[position + 1]
            total = total << 8 | data[position + 2]
            total = total << 8 | data[position + 3]
            kind = data[position + 4]
            header_size = data[position + 5]
            header_size = header_size << 8 | data[position + 6]
            header_size = header_size << 8 | data[position + 7]
            problem = self._refusal(total, kind, header_size)
            if problem is not None:
                self.error = ProtocolError(problem, hint=_hint(data[position : position + 4]))
                return frames
            frame_end = position + 4 + total
            if frame_end > end:
                self._needed = 4 + total
                break
            body_at = position + PREFIX_BYTES + header_size
            body = data[body_at:frame_end] if frame_end > body_at else None
            frames.append((kind, data[position + PREFIX_BYTES : body_at], body))
            position = frame_end
        if position < end:
            self._pending += data[position:]
        return frames

    def _refusal(self, total: int, kind: int, header_size: int) -> str | None:
        if total > self.frame_bytes_max:  # also a negative length: it is read as unsigned
            return f"frame of {total} bytes, the limit is {self.frame_bytes_max}"
        if total < 4:
            return f"frame of {total} bytes, at least 4 are needed"
        if kind > 1:
            return f"unknown serialize type {kind}"
        if header_size > total - 4:
            return f"header of {header_size} bytes in a frame of {total}"
        if header_size > self.header_bytes_max:
            return f"header of {header_size} bytes, the limit is {self.header_bytes_max}"
        return None


def decode_frame(frame: Frame, limits: WireLimits = DEFAULT_LIMITS) -> Command:
    """A frame as FrameReader returns it -> Command. Raises ProtocolError."""
    kind, header, body = frame
    if kind == 0:
        command = decode_json_header(header, limits.fields)
        command.codec = _JSON
    else:
        command = decode_binary_header(header, limits.fields)
        command.codec = _ROCKETMQ
    command.body = body
    return command


def encode_command(command: Command, codec: Codec = Codec.JSON) -> list[Buffer]:
    """Command -> buffers to write in order: first the prefix with the header, then the body as it was given.

    `codec` is used for a command without a codec of its own. A code beyond 16 bits is written with a JSON
    header, and a prepared `block` with a binary one; every peer reads both.
    Raises ProtocolError when the frame would be larger than any peer accepts.
    """
    if command.remark is not None and len(command.remark) > REMARK_CHARS_MAX:
        command.remark = command.remark[:REMARK_CHARS_MAX]
    if command.codec is not None:
        codec = command.codec
    if command.block is not None or (codec == _ROCKETMQ and fits_binary_header(command.code)):
        header = encode_binary_header(command)
        kind = 1
    else:
        header = encode_json_header(command)
        kind = 0
    body: list[Buffer] = _body_buffers(command)
    header_size = len(header)
    total = 4 + header_size
    for part in body:
        total += len(part)
    if total > FRAME_BYTES_MAX:
        raise ProtocolError(f"command {command.code} makes a frame of {total} bytes, the limit is {FRAME_BYTES_MAX}")
    prefix = total.to_bytes(4, "big") + (kind << 24 | header_size).to_bytes(4, "big")
    return [prefix + header, *body]


def _body_buffers(command: Command) -> list[Buffer]:
    body = command.body
    if body is None:
        return []
    if isinstance(body, list):
        return list(body)
    return [body] if len(body) else []


def _hint(start: bytes) -> str:
    """Name the protocol of a peer that speaks another one (HTTP, TLS, ...) by its first four bytes."""
    if start[:2] == b"\x16\x03":
        return "connect without TLS: the peer speaks TLS, this port does not"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "connect with a client of RocketMQ's remoting protocol: the peer speaks HTTP"
    if start == b"PRI ":
        return "connect with a client of RocketMQ's remoting protocol: the peer speaks HTTP/2 (a gRPC client?)"
    if start == b"HTTP":
        return "give the address of a name server or broker: the peer is an HTTP server"
    if start == b"PROX" or start == b"\r\n\r\n":
        return "turn the PROXY protocol off in the load balancer: this port does not take its line"
    return ""
