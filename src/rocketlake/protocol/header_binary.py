"""The binary header (serialize type 1, "ROCKETMQ").

Owns        reading and writing its bytes.
Must not know   frames, single header classes.

Layout (docs/internals/wire.md, "Binary header"), big-endian:
    code int16, language int8, version int16, opaque int32, flag int32, remark length int32, remark,
    fields length int32 (bytes), then per field: key length int16, key, value length int32, value.
Empty text cannot be told from absent: an empty remark, key or value is not there after reading.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Buffer, Command
from rocketlake.protocol.language import LANGUAGE_CODES, language_name
from rocketlake.protocol.limits import FIELDS_MAX, REMARK_CHARS_MAX

__all__ = ["decode_binary_header", "encode_binary_header", "encode_fields", "fits_binary_header"]

_START: Final = Struct(">hbhiii")
_INT: Final = Struct(">i")
_KEY: Final = Struct(">h")
_LENGTHS: Final = tuple(_INT.pack(size) for size in range(256))
_key_parts: Final[dict[str, bytes]] = {}
"""Keys with their length. Our headers have some hundred names; the limit keeps names of peers from filling it."""
_KEY_PARTS_MAX: Final = 1024
_OTHER: Final = LANGUAGE_CODES["OTHER"]


def fits_binary_header(code: int) -> bool:
    """False for codes beyond 16 bits (POP family): such commands have a JSON header."""
    return -32768 <= code <= 32767


def encode_binary_header(command: Command) -> bytes:
    """Command -> header bytes. The code must fit 16 bits (see fits_binary_header)."""
    remark = command.remark.encode() if command.remark else b""
    block = command.block
    if block is None:
        block = encode_fields(command.fields) if command.fields is not None else b""
    start = _START.pack(
        command.code,
        LANGUAGE_CODES.get(command.language, _OTHER),
        command.version,
        command.opaque,
        command.flag,
        len(remark),
    )
    return b"".join((start, remark, _INT.pack(len(block)), block))


def encode_fields(fields: dict[str, str]) -> bytes:
    """The bytes of the fields in a header, without their total length."""
    parts = []
    for key in fields:
        value_bytes = fields[key].encode()
        value_size = len(value_bytes)
        parts.append(_key_parts.get(key) or _key_part(key))
        parts.append(_LENGTHS[value_size] if value_size < 256 else _INT.pack(value_size))
        parts.append(value_bytes)
    return b"".join(parts)


def _key_part(key: str) -> bytes:
    key_bytes = key.encode()
    part = _KEY.pack(len(key_bytes)) + key_bytes
    if len(_key_parts) < _KEY_PARTS_MAX:
        _key_parts[key] = part
    return part


def decode_binary_header(header: Buffer, fields_max: int = FIELDS_MAX) -> Command:
    """Header bytes -> Command without body. Raises ProtocolError when a length points outside of the header."""
    data = header if isinstance(header, bytes) else bytes(header)
    size = len(data)
    if size < 21:
        raise ProtocolError(f"binary header of {size} bytes is shorter than its fixed part")
    code, language, version, opaque, flag, remark_size = _START.unpack_from(data, 0)
    position = 17
    if remark_size < 0 or remark_size > size - 21:
        raise ProtocolError(f"binary header of {size} bytes claims a remark of {remark_size}")
    remark = None
    if remark_size:
        remark = _text(data, position, position + remark_size)[:REMARK_CHARS_MAX]
        position += remark_size
    fields_size: int = _INT.unpack_from(data, position)[0]
    position += 4
    if fields_size < 0 or fields_size > size - position:
        raise ProtocolError(f"binary header of {size} bytes claims {fields_size} bytes of fields")
    command = Command(code)
    command.opaque = opaque
    command.flag = flag
    command.language = language_name(language)
    command.version = version
    command.remark = remark
    if fields_size:
        command.fields = _decode_fields(data, position, position + fields_size, fields_max)
    return command


def _decode_fields(data: bytes, position: int, end: int, fields_max: int) -> dict[str, str]:
    # Single bytes and shifts instead of struct: as fast in Python, and without an object per number when compiled.
    # One byte after the other: in C the sum is 64 bits wide, while `byte << 24` alone would be 32 and turn negative.
    fields: dict[str, str] = {}
    while position < end:
        if end - position < 6:
            raise ProtocolError("binary header ends inside of a field's lengths")
        key_size = data[position]
        key_size = key_size << 8 | data[position + 1]
        key_at = position + 2
        position = key_at + key_size
        if key_size > 32767 or position + 4 > end:
            raise ProtocolError(f"binary header has a key of {key_size} bytes, {end - key_at} are left")
        value_size = data[position]
        value_size = value_size << 8 | data[position + 1]
        value_size = value_size << 8 | data[position + 2]
        value_size = value_size << 8 | data[position + 3]
        value_at = position + 4
        position = value_at + value_size
        if position > end:
            raise ProtocolError(f"binary header has a value of {value_size} bytes, {end - value_at} are left")
        if key_size and value_size:
            fields[_text(data, key_at, value_at - 4)] = _text(data, value_at, position)
            if len(fields) > fields_max:
                raise ProtocolError(f"header has more than {fields_max} fields")
    return fields


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("binary header holds text that is not UTF-8") from None
