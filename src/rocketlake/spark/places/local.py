"""A folder of a local or mounted disk.

Owns        the seam's calls as calls of the disk.
Must not know   object stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

import pyarrow as pa

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.spark.places.durable import make_folder, put_if_absent, read_if_there, remove_if_there, replace
from rocketlake.spark.places.settings import Settings

__all__ = ["LocalPlace"]


class LocalPlace:
    """The folder; `files` is the disk."""

    def __init__(self, path: PurePath, files: Files | None = None, settings: Settings = ()) -> None:
        self.settings = settings
        self.path: Path = Path(path)
        self.files: Files = files or PosixFiles()

    def at(self, path: PurePath) -> LocalPlace:
        """Another folder of this disk."""
        return LocalPlace(path, self.files, self.settings)

    def url(self, path: PurePath | None = None) -> str:
        """The path."""
        return str(path or self.path)

    def library_options(self) -> dict[str, str]:
        """None are needed."""
        return {}

    def put_if_absent(self, path: PurePath, data: bytes) -> bool:
        """By a hard link: of many writers one gets the name."""
        make_folder(self.files, Path(path).parent)
        return put_if_absent(self.files, Path(path), data)

    def put(self, path: PurePath, data: bytes, *, hint: bool = False) -> None:
        """By a rename."""
        replace(self.files, Path(path), data)
        if not hint:
            self.files.sync_dir(Path(path).parent)

    def get(self, path: PurePath) -> bytes | None:
        """The content."""
        return read_if_there(self.files, Path(path))

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """One by one."""
        return [self.files.size(Path(path)) if self.files.exists(Path(path)) else None for path in paths]

    def modified_ms(self, path: PurePath) -> int | None:
        """From the disk."""
        try:
            return self.files.modified_ms(Path(path))
        except FileNotFoundError:
            return None

    def make_folder(self, folder: PurePath) -> None:
        """It survives a power cut."""
        make_folder(self.files, Path(folder))

    def names(self, folder: PurePath, after: str = "") -> list[str]:
        """Folders, too."""
        return [name for name in self.files.list_dir(Path(folder)) if name > after]

    def walk(self, ending: str) -> list[PurePath]:
        """All folders below."""
        return list(self.path.rglob("*" + ending))

    def delete(self, paths: Iterable[PurePath]) -> None:
        """One by one."""
        for path in paths:
            remove_if_there(self.files, Path(path))

    def writer(self, path: PurePath) -> _LocalWriting:
        """The file has its name at once: tables take only files that their log names."""
        return _LocalWriting(Path(path))

    def source(self, path: PurePath) -> str:
        """pyarrow opens paths itself."""
        return str(path)

    def keep_names(self, folders: Iterable[PurePath]) -> None:
        """Tasks sync their files, not the names."""
        for folder in folders:
            self.files.sync_dir(Path(folder))


class _LocalWriting:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.sink: pa.NativeFile = pa.OSFile(str(path), "wb")
        self._is_closed = False

    def close(self) -> None:
        """Synced on return."""
        self.sink.close()
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._is_closed = True

    def abort(self) -> None:
        """Delete what there is."""
        if not self._is_closed:
            self.sink.close()
            self._path.unlink(missing_ok=True)
            self._is_closed = True
