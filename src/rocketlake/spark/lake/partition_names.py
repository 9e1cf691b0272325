"""Values of partition columns as folder names.

Owns        escaping (that of Hive and Spark, so that every reader undoes it), limits.
Must not know   the choice of partition columns, files.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

__all__ = ["VALUE_BYTES_MAX", "Partition", "ascii_folder", "ascii_name", "fits", "partition_folder", "safe_name"]

Partition = tuple[tuple[str, str | None], ...]
"""Partition column and its value as text (None: null), in the table's order."""

VALUE_BYTES_MAX = 160
"""A folder name has 255 bytes on most disks, and an escaped byte of a value needs three."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = re.compile(r"[0-9A-Za-z_.-]")
_FOLDER_BYTES_MAX = 250


def partition_folder(partition: Partition) -> PurePosixPath:
    """`storeDay=2026-11-21/tags=a%2Fb`; the empty path for a table without partitions."""
    return PurePosixPath(*(f"{safe_name(name)}={_value(value)}" for name, value in partition))


def ascii_folder(partition: Partition) -> PurePosixPath:
    """A folder for people: its values cannot be read back from it, and no character is one that a URI escapes."""
    folders = (f"{ascii_name(name)}={ascii_name(value) if value else _NULL}" for name, value in partition)
    return PurePosixPath(*(folder.replace("%", "_")[:_FOLDER_BYTES_MAX] for folder in folders))


def safe_name(text: str) -> str:
    """The text with every ASCII character but letters, digits, `_`, `.` and `-` written as %XX.

    Other letters stay: Spark takes each %XX for a character of its own, not for a byte of UTF-8.
    """
    if text in (".", ".."):
        return text.replace(".", "%2E")
    return "".join(char if _PLAIN.fullmatch(char) or ord(char) > 0x7F else f"%{ord(char):02X}" for char in text)


def ascii_name(text: str) -> str:
    """The safe name with other letters as %XX for each byte of UTF-8."""
    return "".join(
        char if ord(char) <= 0x7F else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in safe_name(text)
    )


def fits(name: str, value: str) -> bool:
    """True if this value may name a folder."""
    return len(value.encode("utf-8", "surrogatepass")) <= VALUE_BYTES_MAX and (
        len(f"{safe_name(name)}={safe_name(value)}".encode("utf-8", "surrogatepass")) <= _FOLDER_BYTES_MAX
    )


def _value(value: str | None) -> str:
    # Neither Hive nor Delta can tell an empty text from null.
    return safe_name(value) if value else _NULL
