"""Files that appear whole or not at all, and survive a power cut once a call has returned.

Owns        put-if-absent (only one of many writers is first), folders made for good.
Must not know   the content of files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError

__all__ = ["make_folder", "put_if_absent", "read_if_there", "remove_if_there", "replace", "sync_written"]

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def put_if_absent(files: Files, path: Path, data: bytes) -> bool:
    """Make the file with this content, safe on return; False if another writer made it first."""
    fresh = _fresh(path)
    files.write_bytes(fresh, data)
    try:
        files.link(fresh, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise StoreError(
            "this file system has no hard links, which decide the order of commits",
            path=str(path.parent),
            hint="keep the table on a local disk or a file system with hard links (ext4, xfs, btrfs, NFS)",
        ) from error
    finally:
        remove_if_there(files, fresh)
    files.sync_dir(path.parent)
    return True


def replace(files: Files, path: Path, data: bytes) -> None:
    """Replace the file's content; after a crash the file is whole, with the new content or the old."""
    fresh = _fresh(path)
    files.write_bytes(fresh, data)
    files.rename(fresh, path)


def make_folder(files: Files, path: Path) -> None:
    """Make a folder and those above it; they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not files.exists(folder)]
    if missing:
        files.make_dirs(path)
        for folder in missing:
            files.sync_dir(folder.parent)


def sync_written(paths: Iterable[Path]) -> None:
    """Files that a library wrote without syncing them, and their names, survive a power cut on return."""
    files = [path for path in paths if path.is_file()]
    for path in (*files, *sorted({path.parent for path in files})):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_if_there(files: Files, path: Path) -> bytes | None:
    """The content, None if there is no such file."""
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        return None


def remove_if_there(files: Files, path: Path) -> bool:
    """Delete; False if it was gone already."""
    try:
        files.remove(path)
    except FileNotFoundError:
        return False
    return True


def _fresh(path: Path) -> Path:
    # The name begins with a dot: a reader that lists the folder does not take it for an entry.
    return path.with_name(f".{path.name}.{uuid4().hex}")
