"""The tables of a store that is converted: topics, groups, offsets, progress of delayed messages.

Owns        which files of `config` are taken over, and the choice between one and its copy of the save before.
Must not know   the meaning of a table, the log.

Apache's broker puts X.json aside as X.json.bak when it saves: one that was killed in between has only that, or an empty
X.json. A broker that starts there reads the copy, so the new store gets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rocketlake.base.disk.seam import Files
from rocketlake.base.saved_json import peek_text

__all__ = ["Tables", "copy_tables"]

_ENDINGS = (".json", ".json.bak")


@dataclass(slots=True)
class Tables:
    """What became of the files."""

    older: list[str] = field(default_factory=list)
    """Taken from the copy of the save before."""
    left: list[str] = field(default_factory=list)
    """Not taken over."""


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
