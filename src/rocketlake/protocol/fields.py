"""Typed headers: a struct on our side, a string-to-string map (`extFields`) on the wire.

Owns        the conversion, the Java rules for numbers and booleans, the error that names a missing or bad field.
Must not know   single headers (headers/*.py), the bytes of the map (header_json.py, header_binary.py).

Rules (docs/internals/wire.md, "Fields"): every value is a string; the key is the Java field name; absent = None or the
default; unknown keys are ignored; a boolean is true when it equals "true" in any case, any other text is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from rocketlake.base.errors import UsageError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A Java int."""
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long."""


class HeaderError(UsageError):
    """A header field is missing or is not what its type asks for; the text names the field and its value."""


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of all headers: snake_case here, camelCase (or an explicit name) on the wire."""


class RequestHeader(Header, kw_only=True):
    """Keys that any request header may carry, all optional (Java: RpcRequestHeader)."""

    namespace: str | None = msgspec.field(default=None, name="ns")
    namespaced: bool | None = msgspec.field(default=None, name="nsd")
    target_broker: str | None = msgspec.field(default=None, name="bname")
    oneway: bool | None = msgspec.field(default=None, name="oway")


class TopicHeader(RequestHeader, kw_only=True):
    """Adds the static-topic switch: False means "do not map this queue again" (Java: TopicRequestHeader)."""

    logical: bool | None = msgspec.field(default=None, name="lo")


H = TypeVar("H", bound=Header)

_wire_names: Final[dict[type[Header], tuple[str, ...]]] = {}
_boolean_names: Final[dict[type[Header], frozenset[str]]] = {}
_NO_FIELDS: Final[dict[str, str]] = {}


def to_fields(header: Header) -> dict[str, str]:
    """Header -> wire fields. None is left out; all other values are written, also defaults (old peers need them)."""
    names = _wire_names.get(type(header)) or _learn(type(header))
    fields: dict[str, str] = {}
    for wire, value in zip(names, msgspec.structs.astuple(header), strict=True):
        if value is None:
            continue
        if value.__class__ is str:
            fields[wire] = value
        elif value.__class__ is bool:
            fields[wire] = "true" if value else "false"
        else:
            fields[wire] = str(value)
    return fields


def from_fields(cls: type[H], fields: Mapping[str, str] | None) -> H:
    """Wire fields -> header. Raises HeaderError naming the field that is missing or bad."""
    if fields is None:
        fields = _NO_FIELDS
    try:
        return msgspec.convert(fields, cls, strict=False)
    except msgspec.ValidationError as problem:
        return _from_fields_slowly(cls, fields, problem)


def _from_fields_slowly(cls: type[H], fields: Mapping[str, str], problem: msgspec.ValidationError) -> H:
    """Java takes any text for a boolean and blanks for "absent"; msgspec does not. Other texts stay errors."""
    if cls not in _boolean_names:
        _learn(cls)
    booleans = _boolean_names[cls]
    repaired: dict[str, Any] = {}
    for key, value in fields.items():
        if key in booleans:
            repaired[key] = value.lower() == "true"
        elif value:
            repaired[key] = value
    try:
        return msgspec.convert(repaired, cls, strict=False)
    except msgspec.ValidationError:
        raise HeaderError(_explain(cls, fields, problem), where=cls.__name__) from None


def _explain(cls: type[Header], fields: Mapping[str, str], problem: msgspec.ValidationError) -> str:
    text = str(problem)
    for wire in _wire_names[cls]:
        if f"`$.{wire}`" in text:
            return f"header field {wire}={fields.get(wire, '')[:100]!r} is not valid: {text.split(' - at ')[0]}"
        if f"field `{wire}`" in text:
            return f"header field {wire} is missing"
    return f"header not valid: {text}"


def _learn(cls: type[Header]) -> tuple[str, ...]:
    """Reads the wire names of a header class once, in the order of its members."""
    parts = msgspec.structs.fields(cls)
    names = tuple(part.encode_name for part in parts)
    _wire_names[cls] = names
    _boolean_names[cls] = frozenset(part.encode_name for part in parts if part.type in (bool, bool | None))
    return names
