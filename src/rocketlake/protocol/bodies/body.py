"""Body: a JSON body as a typed struct.

Owns        encode and decode of all bodies, the error for a body that cannot be read.
Must not know   single bodies.

Rules (docs/internals/wire.md, "Bodies"): None members are left out; unknown members are ignored; null = absent; numbers
may come as text, Java's enums as ordinals (java_enum.py). The first try is a typed msgspec decode. A body that
it refuses is decoded untyped, then with bare number keys quoted, and last, up to a size, by the slow reader of the
whole dialect (base/java/json_text.py).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from typing import Any, ClassVar, Final, Self, TypeVar

import msgspec

from rocketlake.base.errors import UsageError
from rocketlake.base.java import json_text
from rocketlake.protocol.bodies.java_enum import name_ordinals

DIALECT_BYTES_MAX: Final = 16 * 1024
"""The reader of the full dialect is the slowest, and it runs on the loop: a body for it must be small."""
BARE_KEYS_BYTES_MAX: Final = 64 * 1024
UNTYPED_BYTES_MAX: Final = 256 * 1024
"""Requests in standard JSON that does not fit the struct (numbers as text). They are decoded twice, so a larger one is
refused."""
ANSWER_DIALECT_BYTES_MAX: Final = 4 * 1024 * 1024
"""The same for answers with message queues or bare numbers as keys, which grow with a cluster: only clients and tools
read them."""

_NONE: Final = b"null"
"""How a member that is None is written; it may stand in a string, too."""

T = TypeVar("T")

_BARE_KEY: Final = re.compile(
    # a string (or one that never ends, so that no text makes this quadratic), or a bare key
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|([{,]\s*)(-?\d{1,20})(\s*:)',
    re.DOTALL,
)


class BodyError(UsageError):
    """A request or answer body that cannot be read; the text names the member."""


class Entry(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all structs inside a body: snake_case here, camelCase (or an explicit name) on the wire."""


class Body(Entry, kw_only=True):
    """Base of whole bodies."""

    bare_keys_bytes_max: ClassVar[int] = BARE_KEYS_BYTES_MAX
    """A larger text with bare numbers as keys is refused: quoting them holds up the loop."""
    untyped_bytes_max: ClassVar[int | None] = None
    """A larger text that does not fit the struct at once is refused: a number in an enum's place, a null."""

    def encode(self) -> bytes:
        """JSON text, standard form."""
        text = json_text.to_text(self)
        return json_text.to_text(to_json(self)) if _NONE in text else text

    @classmethod
    def decode(cls, data: bytes | memoryview | None) -> Self:
        """Body bytes -> struct. Raises BodyError."""
        return decode_as(cls, data)


def decoding_list(
    kind: type[Body], member: str, element: type[T], data: bytes | memoryview
) -> Generator[None, None, list[T]]:
    """The list that is this member of a body, one element a step. Raises BodyError."""
    try:
        parts = msgspec.json.decode(
            msgspec.json.decode(data, type=dict[str, msgspec.Raw])[member], type=list[msgspec.Raw]
        )
        elements = []
        for part in parts:
            elements.append(msgspec.json.decode(part, type=element, strict=False))
            yield
    except (KeyError, msgspec.MsgspecError, RecursionError, UnicodeError):
        body = kind.decode(data)
        return next(getattr(body, each.name) for each in msgspec.structs.fields(kind) if each.encode_name == member)
    return elements


def to_json(value: Any) -> Any:
    """Struct -> plain JSON value without None members."""
    return _without_none(msgspec.to_builtins(value, str_keys=True))


def to_bare_text(value: Any) -> bytes:
    """Struct -> JSON text without None members, number keys without quotes, as Java writes it."""
    return json_text.to_text_unquoted_keys(_without_none(msgspec.to_builtins(value)))


def decode_as(kind: type[T], data: bytes | memoryview | None) -> T:
    """Body bytes -> any type msgspec knows. Raises BodyError."""
    if not data:
        raise BodyError(f"{_name(kind)}: the body is missing")
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        untyped_max: int | None = getattr(kind, "untyped_bytes_max", None)
        if untyped_max is not None and len(data) > untyped_max:
            raise BodyError(
                f"{_name(kind)}: {problem}, and with {len(data)} bytes it is too large to be read in another way",
                hint="write enums as names and leave members out that are null, or send less at a time",
            ) from None
        return convert(kind, parse(data, _name(kind), bare_keys_bytes_max=getattr(kind, "bare_keys_bytes_max", None)))


def parse(
    data: bytes | memoryview,
    name: str,
    dialect_bytes_max: int = DIALECT_BYTES_MAX,
    *,
    bare_keys_bytes_max: int | None = None,
) -> Any:
    """Body bytes in the fastjson dialect -> plain JSON value. Raises BodyError.

    `dialect_bytes_max`: the longest text for the slow reader of the whole dialect. `bare_keys_bytes_max`: the longest
    text whose only fault is bare number keys; None: as `dialect_bytes_max`.
    """
    text = bytes(data)
    has_bare_keys = len(text) <= (bare_keys_bytes_max or dialect_bytes_max)
    for rewrite in (bytes, _quote_bare_keys) if has_bare_keys else (bytes,):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
            return msgspec.json.decode(rewrite(text))
    if len(text) > dialect_bytes_max:
        raise BodyError(f"{name}: the body is no standard JSON, and with {len(text)} bytes too large for any other")
    try:
        return json_text.parse(text)
    except (ValueError, RecursionError) as problem:
        raise BodyError(f"{name}: the body is no JSON: {problem}") from None


def parse_answer(data: bytes | memoryview, name: str) -> dict[str, Any]:
    """An answer with message queues as keys -> its members. Raises BodyError."""
    parsed = parse(data, name, ANSWER_DIALECT_BYTES_MAX)
    if not isinstance(parsed, dict):
        raise BodyError(f"{name}: the body is no object")
    return parsed


def _quote_bare_keys(text: bytes) -> bytes:
    """`{0:"a"}` -> `{"0":"a"}`. The pattern matches strings too, and leaves them as they are."""
    return _BARE_KEY.sub(lambda found: found[0] if found[2] is None else b'%b"%b"%b' % found.group(1, 2, 3), text)


def convert(kind: type[T], parsed: Any) -> T:
    """Plain JSON value -> struct. Raises BodyError naming the member."""
    try:
        return msgspec.convert(name_ordinals(kind, _without_none(parsed)), kind, strict=False)
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
