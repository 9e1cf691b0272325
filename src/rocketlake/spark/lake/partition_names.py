"""Values of partition columns as folder names, and back to columns.

Owns        escaping (that of Hive and Spark, so that every reader undoes it), limits.
Must not know   the choice of partition columns, files.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

__all__ = ["VALUE_BYTES_MAX", "Partition", "fits", "partition_folder", "safe_name"]

Partition = tuple[tuple[str, str | None], ...]
"""Partition column and its value as text (None: null), in the table's order."""

VALUE_BYTES_MAX = 160
"""A folder name has 255 bytes on most disks; each byte of a value may need three."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = re.compile(r"[0-9A-Za-z_.-]")
_FOLDER_BYTES_MAX = 250


def partition_folder(partition: Partition) -> PurePosixPath:
    """`storeDay=2026-11-21/tags=a%2Fb`; the empty path for a table without partitions."""
    return PurePosixPath(*(f"{safe_name(name)}={_value(value)}" for name, value in partition))


def safe_name(text: str) -> str:
    """The text with everything but ASCII letters, digits, `_`, `.` and `-` written as %XX per UTF-8 byte."""
    if text in (".", ".."):
        return text.replace(".", "%2E")
    return "".join(
        char if _PLAIN.fullmatch(char) else "".join(f"%{b:02X}" for b in char.encode("utf-8", "surrogatepass"))
        for char in text
    )


def fits(name: str, value: str) -> bool:
    """True if this value may name a folder."""
    return len(value.encode("utf-8", "surrogatepass")) <= VALUE_BYTES_MAX and (
        len(safe_name(name)) + 1 + len(safe_name(value)) <= _FOLDER_BYTES_MAX
    )


def _value(value: str | None) -> str:
    # Neither Hive nor Delta can tell an empty text from null.
    return safe_name(value) if value else _NULL
