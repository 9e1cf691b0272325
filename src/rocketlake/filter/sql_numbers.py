"""Numbers as Java reads them from the text of a property.

Owns        which text is an int, long or double to Apache's broker, and the order of doubles.
Must not know   expressions.

Source: Java's Integer.valueOf, Long.valueOf, Double.valueOf and Double.compareTo. Two things differ from Python: a
double may have blanks around it, a suffix ("1.5f") and hexadecimal digits, but no underscore; and NaN is equal to
itself and above all other numbers, -0.0 below 0.0. Only ASCII digits are read (docs/internals/sql92.md, "Differences").

A compiled twin; see docs/internals/compiled_twins.md.
"""

from __future__ import annotations

import re
from math import copysign, isnan

__all__ = ["INT_MAX", "LONG_MAX", "NUMBER_CHARACTERS_MAX", "compare_doubles", "read_double", "read_integer"]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
NUMBER_CHARACTERS_MAX = 1024
"""A longer text is no number here: to read one of 32 KiB takes milliseconds, for each condition that asks."""

_LONG_DIGITS = 19

_DOUBLE = re.compile(
    r"""[\x00-\x20]*
    (?: (?P<decimal>[+-]?(?:NaN|Infinity))
      | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?
      | (?P<hex>[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?
    )[\x00-\x20]*""",
    re.VERBOSE,
)


def read_integer(text: str, number_max: int) -> int | None:
    """The number, if it is one from -number_max - 1 to number_max."""
    if len(text) > NUMBER_CHARACTERS_MAX:
        return None
    digits = text
    is_negative = False
    if text and text[0] in "+-":
        is_negative = text[0] == "-"
        digits = text[1:]
    if not (digits.isdigit() and digits.isascii()):
        return None
    if len(digits) > _LONG_DIGITS:
        digits = digits.lstrip("0") or "0"
        if len(digits) > _LONG_DIGITS:
            return None
    number = int(digits)
    if is_negative:
        number = -number
    return number if -number_max - 1 <= number <= number_max else None


def read_double(text: str) -> float | None:
    """The text as a double; infinite if the number is too large, None if the text is no number."""
    if len(text) > NUMBER_CHARACTERS_MAX:
        return None
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)  # the usual form, without a pattern
    match = _DOUBLE.fullmatch(text)
    if match is None:
        return None
    if match["hex"] is None:
        return float(match["number"] or match["decimal"])
    try:
        return float.fromhex(match["hex"])
    except OverflowError:
        return copysign(float("inf"), -1.0 if match["hex"].startswith("-") else 1.0)


def compare_doubles(left: float, right: float) -> int:
    """-1, 0 or 1, in Java's order."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        left, right = copysign(1.0, left), copysign(1.0, right)
    else:  # one of them is NaN
        left, right = float(isnan(left)), float(isnan(right))
    return (left > right) - (left < right)
