"""Folders that options name, on a file system this machine sees or on an object store.

Owns        reading such a path, also written as file:/...
Must not know   the files in these folders.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rocketlake.base.errors import UsageError
from rocketlake.spark.places.location import Location, is_stored, location_of
from rocketlake.spark.places.settings import Settings

__all__ = ["kept_location", "local_folder"]

_ELSE = {
    "offsetStore": "give a local or mounted folder, or s3://bucket/folder; or 'consumerGroup' keeps first offsets at"
    " the brokers",
    "lossTable": "give a local or mounted folder that driver and workers see, or s3://bucket/folder",
}


def kept_location(option: str, text: str, settings: Settings) -> Location:
    """The folder, here or on an object store. UsageError for other file systems and relative paths."""
    if is_stored(text):
        return location_of(text, dict(settings), what=f"option '{option}'")
    return Location(local_folder(option, text))


def local_folder(option: str, text: str) -> Path:
    """The folder. UsageError for other file systems and relative paths."""
    place = urlsplit(text)
    if place.scheme not in ("", "file") or place.netloc not in ("", "localhost"):
        raise UsageError(
            f"option '{option}' is '{text}', which is not a folder of this machine's file system", hint=_ELSE[option]
        )
    folder = Path(unquote(place.path) if place.scheme else text)
    if not folder.is_absolute():
        raise UsageError(f"option '{option}' is '{text}', a relative path", hint="give an absolute path")
    return folder
