"""Where something lies, as a value: a url, and the options of its store.

Owns        reading urls and paths that users give, opening the place behind one.
Must not know   what lies there.

A location travels to tasks in pickles and plans: it holds names of secrets only, and opens nothing before `open`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.spark.option_values import local_path, scheme_of
from rocketlake.spark.places.local import LocalPlace
from rocketlake.spark.places.objects import Objects
from rocketlake.spark.places.obstore_objects import ObstoreObjects
from rocketlake.spark.places.place import Place
from rocketlake.spark.places.settings import Settings, library_options, make_store, store_settings
from rocketlake.spark.places.stored import StoredPlace

__all__ = ["OBJECTS", "Location", "is_stored", "location_of", "place_of"]

_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfss": "abfss", "abfs": "abfss"}
_BAD = frozenset("%?#*\\\n\r")


def _obstore(location: Location) -> Objects:
    scheme, bucket, settings = location.scheme, location.bucket, location.settings
    host = bucket.partition("@")[0]
    root = f"{scheme}://{bucket}"
    return ObstoreObjects(root, lambda: make_store(scheme, host, settings), lambda: library_options(scheme, settings))


OBJECTS: dict[str, Callable[[Location], Objects]] = dict.fromkeys(("s3", "gs", "abfss"), _obstore)
"""Scheme of a url -> the objects of its bucket. Tests add a store in memory."""


@dataclass(frozen=True, slots=True)
class Location:
    """`path` is a folder of this machine if there is no scheme, else the key in the bucket, with a slash in front."""

    path: PurePath
    scheme: str = ""
    bucket: str = ""
    settings: Settings = ()

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{self.path}" if self.scheme else str(self.path)

    @property
    def is_certain(self) -> bool:
        """True if a commit that failed was not made: what decides is on a disk."""
        return not self.scheme and not self.settings

    @property
    def is_local(self) -> bool:
        """True for a folder of this machine."""
        return not self.scheme

    def child(self, name: str) -> Location:
        """A folder inside."""
        return replace(self, path=self.path / name)

    def sibling(self, ending: str) -> Location:
        """The folder beside with a longer name."""
        return replace(self, path=self.path.with_name(self.path.name + ending))

    def open(self) -> Place:
        """The place; a store is asked with the first call."""
        if not self.scheme:
            return LocalPlace(self.path, settings=self.settings)
        return StoredPlace(self.path, OBJECTS[self.scheme](self), self.settings)


def is_stored(text: str) -> bool:
    """True if the text is the url of an object store."""
    scheme = scheme_of(text)
    return scheme in _SCHEMES or scheme in OBJECTS


def location_of(text: str, options: Mapping[str, str], *, what: str) -> Location:
    """The location a user means by `text`; `what` names it in errors. UsageError if it can be none."""
    if not is_stored(text):
        return Location(Path("/" + _absolute(text, what).strip("/")))
    scheme = scheme_of(text)
    bucket, _, key = unquote(text.partition("://")[2]).partition("/")
    parts = [part for part in key.split("/") if part]
    if not bucket or not parts:
        raise UsageError(f"{what} is '{text}', which names no folder", hint="write it like s3://bucket/orders")
    if _BAD & set(text.partition("://")[2]) or {".", ".."} & set(parts):
        raise UsageError(f"{what} is '{text}', and stores take that for a url", hint="leave out %, ?, #, *, .. and \\")
    return Location(PurePosixPath("/", *parts), _SCHEMES.get(scheme, scheme), bucket, store_settings(options))


def _absolute(text: str, what: str) -> str:
    plain = local_path(text, or_store=True)
    if not plain.startswith("/"):
        raise UsageError(
            f"{what} is '{text}', which is no absolute folder of this machine",
            hint="give a local or mounted folder that driver and tasks see under the same name, or s3://bucket/folder",
        )
    return plain


def place_of(where: PurePath | Location | Place, files: Files | None = None) -> Place:
    """The place itself, or the one that a location stands for, or a path of the disk `files`."""
    if isinstance(where, Location):
        return where.open()
    return LocalPlace(where, files) if isinstance(where, PurePath) else where
