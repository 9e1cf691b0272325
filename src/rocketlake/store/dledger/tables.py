"""The tables of a store that is converted: topics, groups, offsets, progress of delayed messages.

Owns        which files of `config` are taken over, the choice between one and its copy of the save before; how far the
            offsets in them are.
Must not know   the log, topics and groups.

Apache's broker puts X.json aside as X.json.bak when it saves: one that was killed in between has only that, or an empty
X.json. A broker that starts there reads the copy, so the new store gets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.disk.saved_json import peek_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.java.json_text import parse

__all__ = ["Reached", "Tables", "copy_tables", "read_reached"]

_ENDINGS = (".json", ".json.bak")


@dataclass(slots=True)
class Tables:
    """What became of the files."""

    older: list[str] = field(default_factory=list)
    """Taken from the copy of the save before."""
    left: list[str] = field(default_factory=list)
    """Not taken over."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Sums of offsets: members of one group copy them from their leader once a minute only, so they differ."""

    groups: int = 0
    """Of all groups and queues."""
    delayed: int = 0
    """Of all delay levels."""


def read_reached(disk: Files, config: Path) -> Reached:
    """What a `config` folder says of it. StoreError for a table that cannot be read, nor its copy."""

    def offsets(name: str) -> int:
        text, _ = peek_text(disk, config / name)
        return _sum(parse(text).get("offsetTable")) if text is not None else 0

    return Reached(offsets("consumerOffset.json"), offsets("delayOffset.json"))


def _sum(value: Any) -> int:
    """Of all numbers in a table, and in the tables in it."""
    if isinstance(value, dict):
        return sum(map(_sum, value.values()))
    return value if isinstance(value, int) else 0


def copy_tables(disk: Files, source: Path, target: Path) -> Tables:
    """Write the tables of one `config` folder to another. StoreError for one that cannot be read, nor its copy."""
    found = Tables()
    disk.make_dirs(target)
    tables = set()
    for name in disk.list_dir(source):
        if disk.is_dir(source / name):
            found.left.append(f"config/{name}")
        elif name.endswith(_ENDINGS):
            tables.add(name.removesuffix(".bak"))
    for name in sorted(tables):
        text, problem = peek_text(disk, source / name)
        if text is None:
            found.left.append(f"config/{name}: nothing is written in it")
            continue
        if problem or not disk.exists(source / name):
            found.older.append(f"config/{name}")
        disk.write_bytes(target / name, text.encode())
    disk.sync_dir(target)
    return found
