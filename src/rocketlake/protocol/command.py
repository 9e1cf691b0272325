"""Command: one request or one answer, as both sides of a connection see it.

Owns        code, opaque, flag bits, remark, fields (or their bytes), body.
Must not know   its bytes (frame.py, header_json.py, header_binary.py), its sender.

Source: docs/internals/wire.md, "Command".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from rocketlake.protocol.fields import H, Header, from_fields, to_fields
from rocketlake.protocol.language import OUR_LANGUAGE
from rocketlake.protocol.versions import OUR_VERSION

__all__ = ["FLAG_ONEWAY", "FLAG_RESPONSE", "Body", "Buffer", "Codec", "Command"]

Buffer: TypeAlias = bytes | bytearray | memoryview
Body: TypeAlias = Buffer | list[Buffer] | list[memoryview] | None


class Codec(IntEnum):
    """How a header is written: the serialize type byte of a frame."""

    JSON = 0
    ROCKETMQ = 1


FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2


class Command:
    """One request or answer. `opaque` (int32) pairs them; `body` of a received command is bytes or None.

    `codec`: the form of its header; None leaves the choice to the connection. An answer has the codec of its request.
    `block`: the fields in the form of the binary header; a sender of many similar requests prepares them once.
    """

    __slots__ = ("block", "body", "code", "codec", "fields", "flag", "language", "opaque", "remark", "version")

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        language: str = OUR_LANGUAGE,
        version: int = OUR_VERSION,
        remark: str | None = None,
        fields: dict[str, str] | None = None,
        block: bytes | None = None,
        body: Body = None,
        codec: Codec | None = None,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.language = language
        self.version = version
        self.remark = remark
        self.fields = fields
        self.block = block
        self.body = body
        self.codec = codec

    @staticmethod
    def request(
        code: int,
        header: Header | None = None,
        body: Body = None,
        *,
        fields: dict[str, str] | None = None,
        remark: str | None = None,
    ) -> Command:
        """A request; the link that sends it gives it its opaque. `fields` are added to those of the header."""
        return Command(int(code), fields=_merge(header, fields), body=body, remark=remark)

    @staticmethod
    def reply(
        request: Command,
        code: int = 0,
        header: Header | None = None,
        remark: str | None = None,
        body: Body = None,
        *,
        fields: dict[str, str] | None = None,
    ) -> Command:
        """The answer to `request`."""
        merged = _merge(header, fields)
        return Command(
            int(code),
            opaque=request.opaque,
            flag=FLAG_RESPONSE,
            remark=remark,
            fields=merged,
            body=body,
            codec=request.codec,
        )

    @property
    def is_response(self) -> bool:
        """True for an answer, False for a request."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """True when the sender waits for no answer."""
        return self.flag & FLAG_ONEWAY != 0

    @property
    def body_bytes(self) -> bytes:
        """The body in one piece, b"" when there is none."""
        body = self.body
        if body is None:
            return b""
        if isinstance(body, bytes):
            return body
        return b"".join(body) if isinstance(body, list) else bytes(body)

    def header(self, cls: type[H]) -> H:
        """The fields as a typed header. Raises HeaderError naming the missing or bad field."""
        return from_fields(cls, self.fields)

    def __repr__(self) -> str:
        kind = "answer" if self.is_response else "one-way" if self.is_oneway else "request"
        return f"<Command {kind} code={self.code} opaque={self.opaque} fields={self.fields!r} remark={self.remark!r}>"


def _merge(header: Header | None, fields: dict[str, str] | None) -> dict[str, str] | None:
    if header is None:
        return fields
    merged = to_fields(header)
    if fields:
        merged.update(fields)
    return merged
