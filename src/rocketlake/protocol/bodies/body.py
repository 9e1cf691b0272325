"""Body: a JSON body as a typed struct.

Owns        encode and decode of all bodies, the error for a body that is not what it should be.
Must not know   single bodies.

Rules (docs/internals/wire.md, "Bodies"): None members are left out; unknown members are ignored; null = absent; numbers
may come as text. The first try is a typed msgspec decode; only what it refuses goes through base.json_text.
"""

from __future__ import annotations

from typing import Any, Final, Self, TypeVar

import msgspec

from rocketlake.base import json_text
from rocketlake.base.errors import RocketLakeError, UsageError

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
T = TypeVar("T")


class BodyError(UsageError):
    """A request or answer body that cannot be read; the text names the member."""


class Entry(msgspec.Struct, rename="camel", kw_only=True):
    """Base of everything inside of a body: snake_case here, camelCase (or an explicit name) on the wire."""


class Body(Entry, kw_only=True):
    """Base of whole bodies."""

    def encode(self) -> bytes:
        """JSON text, standard form."""
        return json_text.to_text(to_json(self))

    @classmethod
    def decode(cls, data: bytes | memoryview | None) -> Self:
        """Body bytes -> struct. Raises BodyError."""
        return decode_as(cls, data)


def to_json(value: Any) -> Any:
    """Struct -> plain JSON value without None members."""
    return _without_none(msgspec.to_builtins(value, str_keys=True))


def decode_as(kind: type[T], data: bytes | memoryview | None) -> T:
    """Body bytes -> any type msgspec knows. Raises BodyError."""
    if not data:
        raise BodyError(f"{_name(kind)}: the body is missing")
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return convert(kind, parse(data, _name(kind)))


def parse(data: bytes | memoryview, name: str) -> Any:
    """Body bytes in the fastjson dialect -> plain JSON value. Raises BodyError."""
    try:
        return json_text.parse(bytes(data))
    except (RocketLakeError, ValueError, RecursionError) as problem:
        raise BodyError(f"{name}: the body is no JSON: {problem}") from None


def convert(kind: type[T], parsed: Any) -> T:
    """Plain JSON value -> struct. Raises BodyError naming the member."""
    try:
        return msgspec.convert(_without_none(parsed), kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise BodyError(f"{_name(kind)}: {problem}") from None


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_none(member) for member in value if member is not None]
    return value


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
