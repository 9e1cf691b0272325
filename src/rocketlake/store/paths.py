"""Every file and folder name of a store root.

Owns        the names.
Must not know   what the files hold.

Layout: docs/internals/store_layout.md, "Folders".
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["StorePaths", "offset_file_name"]


def offset_file_name(offset: int) -> str:
    """The name of a file that starts at byte `offset` of its log: 20 decimal digits."""
    return f"{offset:020d}"


class StorePaths:
    """Names below one store root; the commit log may lie elsewhere (`storePathCommitLog`)."""

    __slots__ = (
        "abort",
        "checkpoint",
        "commit_log",
        "config",
        "consume_queue",
        "deletions",
        "index",
        "lock",
        "queue_ends",
        "removed",
        "root",
    )

    def __init__(self, root: Path, commit_log: Path | None = None) -> None:
        self.root = root
        self.commit_log = commit_log or root / "commitlog"
        self.consume_queue = root / "consumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.checkpoint = root / "checkpoint"
        self.abort = root / "abort"
        self.lock = root / "lock"
        # Ours; Apache's broker leaves them alone.
        self.queue_ends = root / "queueEnds"
        self.deletions = root / "deletedTopics.json"
        self.removed = root / "removed"
