"""Rules of the Java language that show in files and on the wire.

Owns        String.hashCode.
Must not know   the meaning of a hashed text.
"""

from __future__ import annotations

__all__ = ["string_hash"]


def string_hash(text: str) -> int:
    """java.lang.String.hashCode: a signed 32-bit number over UTF-16 units. Tag codes and index slots come from it."""
    characters = str.__str__(text)  # an exact str also of a subclass; TypeError for anything else, in both forms
    mask = 0xFFFFFFFF  # in a variable: C has no literal of this size that Cython would not make an object
    sign = 0x80000000
    value = 0
    for character in characters:
        unit = ord(character)
        if unit > 0xFFFF:  # Java counts the two surrogates, Python one character
            unit -= 0x10000
            value = (value * 31 + (0xD800 | (unit >> 10))) & mask
            unit = 0xDC00 | (unit & 0x3FF)
        value = (value * 31 + unit) & mask
    return (value ^ sign) - sign
