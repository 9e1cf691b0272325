"""The JSON header (serialize type 0): one object with code, opaque, flag, language, version, remark, extFields.

Owns        reading and writing that object, the tolerances of the Java decoder.
Must not know   frames, single header classes.

Layout: docs/internals/wire.md, "JSON header". The first try is a typed msgspec decode; a header that msgspec refuses
(numbers as text, numbers in extFields) is decoded untyped. A header that is no standard JSON (single quotes, unquoted
names) is read by base/java/json_text.py, slowly, and only up to a size that cannot stop the loop.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rocketlake.base.errors import ProtocolError
from rocketlake.base.java import json_text
from rocketlake.protocol.command import Buffer, Command
from rocketlake.protocol.fields import Int32
from rocketlake.protocol.language import UNKNOWN_LANGUAGE, language_name
from rocketlake.protocol.limits import DIALECT_BYTES_MAX, FIELDS_MAX, REMARK_CHARS_MAX


class _Wire(msgspec.Struct, omit_defaults=False, gc=False):
    """The header object on the wire, in the order in which Java writes it."""

    code: Int32 = 0
    extFields: dict[str, str] | None = None
    flag: Int32 = 0
    language: str | None = None
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _Written(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The header object that we write: members that are None are left out."""

    code: int
    extFields: dict[str, str] | None = None
    flag: int
    language: str
    opaque: int
    remark: str | None = None
    serializeTypeCurrentRPC: str
    version: int


_decoder: Final = msgspec.json.Decoder(_Wire)
_encoder: Final = msgspec.json.Encoder()


def encode_json_header(command: Command) -> bytes:
    """Command -> header bytes. None members are left out."""
    return _encoder.encode(
        _Written(
            code=command.code,
            extFields=command.fields,
            flag=command.flag,
            language=command.language,
            opaque=command.opaque,
            remark=command.remark,
            serializeTypeCurrentRPC="JSON",
            version=command.version,
        )
    )


def decode_json_header(header: Buffer, fields_max: int = FIELDS_MAX) -> Command:
    """Header bytes -> Command without body. Raises ProtocolError where the Java decoder refuses, too."""
    try:
        wire = _decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        wire = _read_tolerantly(header)
    fields = wire.extFields
    if fields is not None and len(fields) > fields_max:
        raise ProtocolError(f"header has {len(fields)} fields, the limit is {fields_max}")
    remark = wire.remark
    if remark is not None and len(remark) > REMARK_CHARS_MAX:
        remark = remark[:REMARK_CHARS_MAX]
    return Command(
        wire.code,
        opaque=wire.opaque,
        flag=wire.flag,
        language=wire.language or UNKNOWN_LANGUAGE,
        version=wire.version,
        remark=remark,
        fields=fields,
    )


def _read_tolerantly(header: Buffer) -> _Wire:
    try:
        parsed = _parse(header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise ProtocolError(f"JSON header cannot be read: {problem}") from None
    if not isinstance(parsed, dict):
        raise ProtocolError(f"JSON header is no object but {type(parsed).__name__}")
    return _Wire(
        code=_number(parsed, "code"),
        extFields=_fields(parsed.get("extFields")),
        flag=_number(parsed, "flag"),
        language=_language(parsed.get("language")),
        opaque=_number(parsed, "opaque"),
        remark=_text(parsed.get("remark")),
        version=_number(parsed, "version"),
    )


def _parse(header: Buffer) -> Any:
    try:
        return msgspec.json.decode(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        if len(header) > DIALECT_BYTES_MAX:
            raise
    return json_text.parse(header)


def _number(parsed: dict[str, Any], key: str) -> int:
    """An int32 given as number or text; absent or null is 0."""
    value = parsed.get(key)
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"JSON header member {key}={str(value)[:50]!r} is no number") from None
    if not -(2**31) <= number < 2**31:
        raise ProtocolError(f"JSON header member {key} does not fit 32 bits")
    return number


def _language(value: Any) -> str:
    """A name, or the ordinal some peers write."""
    return language_name(value) if isinstance(value, int) else str(value) if value else UNKNOWN_LANGUAGE


def _fields(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ProtocolError("JSON header member extFields is no object")
    fields = {str(key): _text(member) for key, member in value.items()}
    return {key: text for key, text in fields.items() if text is not None}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return json_text.to_text(value).decode()
