"""Files and folders on their way out: out of the way at once, deleted later.

Owns        the folder `removed`, the names in it, deleting the files in it.
Must not know   what the files hold, why they go, on which thread they are deleted.

To delete a large file takes a while, so a worker does it. Until then another file may be made under the old name (a
topic that is made again), and a worker that goes by that name would delete the new one. So the name is given up first.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.seam import Files

__all__ = ["Removal", "Removed"]


class Removal:
    """Takes files and folders of one store out of the way; they must lie on the same file system."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.disk = files
        self._folder = folder
        self._count = 0

    def take(self, path: Path) -> Removed:
        """Rename a file or a folder out of the way, now. Raises OSError; then it is where it was."""
        self.disk.make_dirs(self._folder)
        target = self._next_name()
        self.disk.rename(path, target)
        return Removed(self.disk, path, target)

    def left_over(self) -> list[Removed]:
        """Files that an earlier process took out of the way and did not delete. Raises OSError."""
        found = [self._folder / name for name in self.disk.list_dir(self._folder)]
        return [Removed(self.disk, path, path) for path in found]

    def _next_name(self) -> Path:
        while True:
            self._count += 1
            target = self._folder / str(self._count)
            if not self.disk.exists(target):
                return target


class Removed:
    """One of them. `path` is where it was."""

    __slots__ = ("_disk", "_target", "path")

    def __init__(self, files: Files, path: Path, target: Path) -> None:
        self.path = path
        self._disk = files
        self._target = target

    def remove(self) -> None:
        """Delete it, a folder with all that is in it. Blocking; may run on a worker. Raises OSError."""
        self._remove(self._target)

    def _remove(self, path: Path) -> None:
        if self._disk.is_dir(path):
            for name in self._disk.list_dir(path):
                self._remove(path / name)
        self._disk.remove(path)
