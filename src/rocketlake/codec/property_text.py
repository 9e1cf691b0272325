"""The properties block of a record: name \\x01 value \\x02 name \\x01 value \\x02 ...

Owns        building, reading and searching that text.
Must not know   the meaning of properties (model/property_names.py).

Bytes: docs/internals/record.md ("Properties"). There is no escape: names and values cannot hold the two separators.
A reader drops pairs with an empty name or value; the last \\x02 may be missing; the last of equal names wins.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.base.errors import UsageError

__all__ = ["decode", "encode", "encode_again", "find"]

Buffer = bytes | bytearray | memoryview


def encode(properties: Mapping[str, str | None]) -> bytes:
    """The block; None values are left out. UsageError if a name or value holds a separator."""
    pieces = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    text = "".join(pieces)
    pairs = len(pieces)
    if text.count("\x01") > pairs or text.count("\x02") > pairs:
        raise _separator_inside(properties)
    return text.encode("utf-8", "replace")


def encode_again(properties: Mapping[str, str | None]) -> bytes:
    """The block of properties that were read from one, and of what the broker adds. UsageError if one holds \\x02.

    A damaged byte may have put a \\x01 into a value. It stays there: the block is read again as the same properties.
    """
    pieces = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    text = "".join(pieces)
    if text.count("\x02") > len(pieces):
        raise _separator_inside(properties)
    return text.encode("utf-8", "replace")


def _separator_inside(properties: Mapping[str, str | None]) -> UsageError:
    return UsageError(
        "a property holds \\x01 or \\x02", where=_name_of_bad(properties), hint="put such bytes into the body"
    )


def _name_of_bad(properties: Mapping[str, str | None]) -> str:
    bad = [name for name, value in properties.items() if "\x01" in f"{name}{value}" or "\x02" in f"{name}{value}"]
    return ", ".join(map(repr, bad))


def decode(data: Buffer) -> dict[str, str]:
    """name -> value of a block. Bytes that are no UTF-8 become U+FFFD, as Java reads them."""
    properties: dict[str, str] = {}
    text = str(data, "utf-8", "replace")
    for pair in text.split("\x02"):
        name, _, value = pair.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def find(data: Buffer, name: bytes) -> bytes | None:
    """The value of one property without reading the others; the same as `decode` would give."""
    block = data if isinstance(data, bytes) else bytes(data)
    wanted = name + b"\x01"
    start = block.rfind(wanted)
    while start >= 0:
        if start == 0 or block[start - 1] == 2:
            begin = start + len(wanted)
            end = block.find(b"\x02", begin)
            if end < 0:
                end = len(block)
            if end > begin:
                return block[begin:end]
        start = block.rfind(wanted, 0, start + len(wanted) - 1)
    return None
