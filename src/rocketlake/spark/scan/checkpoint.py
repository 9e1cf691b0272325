"""The checkpoint of a store, read without opening it as a broker does.

Owns        its five numbers as values.
Must not know   how a broker writes them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

__all__ = ["StoreCheckpoint", "read_checkpoint"]

_LAYOUT = struct.Struct(">5q")


class StoreCheckpoint(NamedTuple):
    """See docs/internals/store_layout.md, "Checkpoint"."""

    physic_ms: int
    logics_ms: int
    index_ms: int
    master_flushed_offset: int
    confirm_offset: int


def read_checkpoint(path: Path) -> StoreCheckpoint | None:
    """The numbers, None without the file."""
    try:
        with path.open("rb") as file:
            data = file.read(_LAYOUT.size)
    except FileNotFoundError:
        return None
    return StoreCheckpoint(*_LAYOUT.unpack(data)) if len(data) == _LAYOUT.size else None
