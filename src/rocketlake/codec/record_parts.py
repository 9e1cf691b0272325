"""Where the parts of a record lie, for a reader of one part that needs no message.

Owns        finding the properties block in the bytes of one record.
Must not know   the content of properties (property_text.py), files.

A compiled twin; see docs/internals/compiled_twins.md. Bytes: docs/internals/record.md.
"""

from __future__ import annotations

from rocketlake.codec.record_layout import BODY_AT, HOST_V6_MORE, MAGIC_AT, MAGIC_V2, SYS_FLAG_AT
from rocketlake.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = ["properties_block"]

_MAGIC_LAST_AT = MAGIC_AT + 3
_V2_LAST_BYTE = MAGIC_V2 & 0xFF
_FLAGS_AT = SYS_FLAG_AT + 3
_V6_BORN = BORN_HOST_V6
_V6_STORE = STORE_HOST_V6
_V6_MORE_BYTES = HOST_V6_MORE
_BODY_AT = BODY_AT


def properties_block(record: bytes | bytearray | memoryview) -> bytes:
    """The properties of a record as they lie in it; none if its lengths do not fit."""
    return _block(memoryview(record))


def _block(data: memoryview) -> bytes:
    size = len(data)
    at = _BODY_AT
    if at > size:
        return b""
    if data[_FLAGS_AT] & _V6_BORN:
        at += _V6_MORE_BYTES
    if data[_FLAGS_AT] & _V6_STORE:
        at += _V6_MORE_BYTES
    if at > size:
        return b""
    at += data[at - 4] << 24 | data[at - 3] << 16 | data[at - 2] << 8 | data[at - 1]
    if at < 0 or at + 2 > size:
        return b""
    if data[_MAGIC_LAST_AT] == _V2_LAST_BYTE:
        at += 2 + (data[at] << 8 | data[at + 1])
    else:
        at += 1 + data[at]
    if at + 2 > size:
        return b""
    end = at + 2 + (data[at] << 8 | data[at + 1])
    return bytes(data[at + 2 : end]) if end <= size else b""
