"""Folders that options name, on a file system this machine sees.

Owns        reading such a path, also written as file:/...
Must not know   the files in these folders.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rocketlake.base.errors import UsageError

__all__ = ["local_folder"]

_ELSE = {
    "offsetStore": "give a local or mounted folder, or use 'consumerGroup' to keep first offsets at the brokers",
    "lossTable": "give a local or mounted folder that driver and workers see",
}


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
