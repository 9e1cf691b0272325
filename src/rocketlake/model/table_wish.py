"""The table that a topic is kept as in the lake: one attribute makes it, others say more.

Owns        the names of these attributes, which values can be used.
Must not know   who writes tables (spark/pipeline/serving), where attributes are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketlake.base.errors import UsageError

__all__ = ["TABLE_ATTRIBUTES", "TABLE_FORMAT", "TableWish", "check_table_attribute", "format_change", "table_wish"]

TABLE_FORMAT: Final = "lake.format"
_BODY: Final = "lake.body"
_KEEP_DAYS: Final = "lake.keep.days"
TABLE_ATTRIBUTES: Final = (TABLE_FORMAT, _BODY, _KEEP_DAYS)
_WORDS: Final = {TABLE_FORMAT: ("delta", "iceberg", "parquet"), _BODY: ("raw", "json")}
_DAYS_MAX: Final = 36_500
_OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class TableWish:
    """What a topic's attributes say of its table. `keep_days`: rows of older days are dropped; 0: none is."""

    table_format: str
    body: str = "raw"
    keep_days: int = 0


def table_wish(attributes: Mapping[str, str]) -> TableWish | None:
    """None without `lake.format`. UsageError for a value that is not known, from a file of another program."""
    if TABLE_FORMAT not in attributes:
        return None
    for name in TABLE_ATTRIBUTES:
        if name in attributes:
            check_table_attribute(name, attributes[name])
    return TableWish(attributes[TABLE_FORMAT], attributes.get(_BODY, "raw"), int(attributes.get(_KEEP_DAYS, "0")))


def check_table_attribute(name: str, value: str) -> None:
    """UsageError for a value that this attribute cannot have."""
    if name == _KEEP_DAYS:
        if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) <= _DAYS_MAX:
            raise UsageError(
                f"attribute {name}={value!r} is no number of days", hint=f"write 1 to {_DAYS_MAX}; -{name} keeps all"
            )
    elif value not in _WORDS[name]:
        raise UsageError(f"attribute {name}={value!r} is not known", hint="write one of " + ", ".join(_WORDS[name]))


def format_change(text: str) -> str:
    """The change of attributes that gives a topic a table of this format; `off` takes it away. UsageError otherwise."""
    if text == _OFF:
        return f"-{TABLE_FORMAT}"
    if text not in _WORDS[TABLE_FORMAT]:
        known = ", ".join((*_WORDS[TABLE_FORMAT], _OFF))
        raise UsageError(f"--lake {text!r} is not known", hint=f"write one of {known}")
    return f"+{TABLE_FORMAT}={text}"
