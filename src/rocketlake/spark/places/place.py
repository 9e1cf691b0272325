"""The seam: what tables and kept files ask of the place where they lie.

Owns        the calls, and what each promises, for local disks and object stores alike.
Must not know   how a disk or a store does it.

Paths are plain paths under the place's own; on an object store they are keys of its bucket. Names of folders need
not be made first. A call raises StoreError (local: OSError, too) when the place refuses or does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any, Protocol

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.spark.places.settings import Settings

__all__ = ["Place", "UnknownOutcome", "Writing"]


class UnknownOutcome(StoreError):
    """The store did not say whether it did what was asked, and it may do it still."""


class Writing(Protocol):
    """A file that is being written: nobody sees it before `close`."""

    sink: Any
    """What pyarrow writes to."""

    def close(self) -> None:
        """The file is there as a whole, and safe, on return."""

    def abort(self) -> None:
        """Leave nothing; after `close` it does nothing."""


class Place(Protocol):
    """A folder and all that lies in it."""

    @property
    def path(self) -> PurePath:
        """The folder."""

    @property
    def files(self) -> Files | None:
        """The local disk; None on an object store, which has no folders and no renames."""

    @property
    def settings(self) -> Settings:
        """Options of the store, and of the catalog that names its tables; secrets are named."""

    def at(self, path: PurePath) -> Place:
        """Another folder of the same disk or store."""

    def url(self, path: PurePath | None = None) -> str:
        """The name for people and libraries: an absolute path, or `s3://bucket/key`."""

    def library_options(self) -> dict[str, str]:
        """Options for libraries that open the url themselves (deltalake). Secrets in clear: never keep or show them."""

    def put_if_absent(self, path: PurePath, data: bytes) -> bool:
        """Make the file, safe on return; False if another writer made it first.

        No two writers may give the same data, or both will be told that they were first. UnknownOutcome if the store
        does not say in the end.
        """

    def put(self, path: PurePath, data: bytes, *, hint: bool = False) -> None:
        """Make or replace the file as a whole; safe on return, unless it is only a hint."""

    def get(self, path: PurePath) -> bytes | None:
        """The content, None if there is no such file."""

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """Bytes of each file, None for a missing one."""

    def modified_ms(self, path: PurePath) -> int | None:
        """When the file was last written, by the clock of the place; None for a missing one."""

    def make_folder(self, folder: PurePath) -> None:
        """A local folder must be made before a file is written into it."""

    def names(self, folder: PurePath, after: str = "") -> list[str]:
        """Names of the files in a folder, sorted; only those behind `after`."""

    def walk(self, ending: str) -> list[PurePath]:
        """All files of the place and of the folders below it whose names end so."""

    def delete(self, paths: Iterable[PurePath]) -> None:
        """Delete files; missing ones do not count."""

    def writer(self, path: PurePath) -> Writing:
        """Begin a file."""

    def source(self, path: PurePath) -> Any:
        """What pyarrow reads the file from. FileNotFoundError, now or when it is read, for a missing one."""

    def keep_names(self, folders: Iterable[PurePath]) -> None:
        """The names of finished files in these folders survive a power cut on return."""
