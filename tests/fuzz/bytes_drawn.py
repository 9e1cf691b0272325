"""Owns drawing bytes that are nearly right: samples with flips, cuts, insertions and lying numbers.

Must not know   what the bytes mean.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import strategies as st

Edit: TypeAlias = tuple[str, int, int]
"""Kind, place (counted round and round), value."""

_NUMBERS = (0, 1, -1, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, -(2**31), 1 << 24, 1 << 20)
edits: st.SearchStrategy[list[Edit]] = st.lists(
    st.tuples(
        st.sampled_from(["flip", "byte", "number", "long", "cut", "insert", "zeros", "twice"]),
        st.integers(0, 1 << 17),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, many: Sequence[Edit]) -> bytes:
    """The bytes with each edit done, one after the other."""
    for kind, place, value in many:
        at = place % (len(data) + 1)
        number = _NUMBERS[value % len(_NUMBERS)]
        match kind:
            case "flip" if at < len(data):
                data = data[:at] + bytes([data[at] ^ (1 << value % 8)]) + data[at + 1 :]
            case "byte" if at < len(data):
                data = data[:at] + bytes([value]) + data[at + 1 :]
            case "number" if at + 4 <= len(data):
                data = data[:at] + (number & 0xFFFFFFFF).to_bytes(4, "big") + data[at + 4 :]
            case "long" if at + 8 <= len(data):
                data = data[:at] + struct.pack(">q", number << (value % 3 * 16)) + data[at + 8 :]
            case "cut":
                data = data[:at]
            case "insert":
                data = data[:at] + bytes([value]) * (1 + value % 9) + data[at:]
            case "zeros":
                data = data[:at] + bytes(min(value, len(data) - at)) + data[at + value :]
            case "twice":
                data = data[: at + value] + data[at : at + value] + data[at + value :]
    return data


def damaged(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of the samples with a few edits, seldom plain noise."""
    nearly = st.builds(edited, st.sampled_from(samples), edits)
    return st.one_of(nearly, nearly, nearly, st.binary(max_size=200))
