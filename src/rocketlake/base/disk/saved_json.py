"""A small file that is replaced as a whole: the save and load protocol of RocketMQ's configuration files.

Owns        the order of the steps with X.tmp, X.bak and X; the choice of the one to read.
Must not know   the meaning of the text; only that it is JSON.

Save: write X.tmp and sync it, X -> X.bak, X.tmp -> X, sync the folder. A crash leaves X or X.bak whole.
Load: X; if it is missing, empty or no JSON, X.bak. A broken X is kept as X.broken: else the next save
would rename it over the good X.bak.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import JsonError, parse
from rocketlake.base.logs import get_logger

__all__ = ["load_text", "peek_text", "save_text"]

log = get_logger(__name__)

_EMPTY = "there is nothing in it but zeros or blanks"


def load_text(files: Files, path: Path) -> str | None:
    """The last text saved, None if there is none. StoreError if there are files but none holds JSON."""
    text, problem = peek_text(files, path)
    if problem:
        log.warning("%s is broken (%s), %s is read", path, problem, _beside(path, ".bak").name)
        files.rename(path, _beside(path, ".broken"))
    return text


def peek_text(files: Files, path: Path) -> tuple[str | None, str]:
    """What `load_text` would return, and what is wrong with the file itself, "" if nothing; no file is changed."""
    copy = _beside(path, ".bak")
    text, problem = _read(files, path)
    if text is not None:
        return text, ""
    text, copy_problem = _read(files, copy)
    if text is None and {problem, copy_problem} - {"", _EMPTY}:
        raise StoreError(
            f"neither the file nor its copy {copy.name} can be read: {problem or copy_problem}",
            path=str(path),
            hint="restore one of them, or move both away to start empty",
        )
    return text, problem


def save_text(files: Files, path: Path, text: str, *, private: bool = False) -> None:
    """Replace the text; after return it survives a power cut. OSError if the disk refuses: the old text stays.

    `private`: nobody but the owner of the process may read it, at any time.
    """
    fresh = _beside(path, ".tmp")
    files.make_dirs(path.parent)
    if private:
        files.write_bytes(fresh, b"")
        files.make_private(fresh)
    files.write_bytes(fresh, text.encode())
    if files.exists(path):
        files.rename(path, _beside(path, ".bak"))
    files.rename(fresh, path)
    files.sync_dir(path.parent)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _read(files: Files, path: Path) -> tuple[str | None, str]:
    """(text, ""), or (None, the fault of the file; "" if it is missing)."""
    if not files.exists(path):
        return None, ""
    data = files.read_bytes(path)
    if not data.strip(b"\0 \r\n\t"):
        return None, _EMPTY
    try:
        parse(data)
        return data.decode(), ""
    except (JsonError, UnicodeDecodeError) as error:
        return None, str(error)
