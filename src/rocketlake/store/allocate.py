"""Make the next file of a log before it is needed.

Owns        how a file is made durable; at most one file made ahead; whether the worker makes it or the append that
            needs it.
Must not know   when a file is full, which bytes go into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.callbacks import call_each
from rocketlake.base.disk.seam import File, Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.worker import Worker

__all__ = ["Allocate", "make_file"]

_log = get_logger(__name__)

_WAIT_SECONDS = 5.0  # as long as Apache's AllocateMappedFileService lets an append wait


def make_file(files: Files, path: Path, size: int) -> File:
    """Make a zero-filled file of `size` bytes and its folder. Blocking. Raises OSError."""
    files.make_dirs(path.parent)
    file = files.open(path, size=size, create=True)
    # Its length first, then its name: a power cut must neither leave a file of another length nor take a synced one.
    file.sync()
    files.sync_dir(path.parent)
    return file


class _Ahead:
    """A file being made; the lock decides between the worker and an append that needs the file now."""

    def __init__(self, files: Files, path: Path, size: int) -> None:
        self.path = path
        self._files = files
        self._size = size
        self._lock = threading.Lock()
        self._file: File | None = None
        self._cancelled = False
        self.is_done = False
        """The worker has told the loop that it made the file, or cannot."""

    def make(self) -> None:
        """Make the file, unless it is made or given up already. Raises OSError."""
        with self._lock:
            if self._file is None and not self._cancelled:
                self._file = make_file(self._files, self.path, self._size)

    def take(self) -> File:
        """The file; made here if the worker has not made it yet. Raises OSError, StoreError when the worker hangs."""
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            raise StoreError(f"the file is still being made after {_WAIT_SECONDS:g} s", path=str(self.path))
        try:
            if self._file is None:
                self._file = make_file(self._files, self.path, self._size)
            return self._file
        finally:
            self._lock.release()

    def cancel(self) -> None:
        """Remove the file if it was made, and do not make it later. Raises OSError."""
        with self._lock:
            self._cancelled = True
            if self._file is not None:
                self._file.close()
                self._files.remove(self.path)
                self._file = None


class Allocate:
    """Opens the files of one log; those prepared in time cost nothing at the roll."""

    def __init__(self, files: Files, file_size: int, worker: Worker) -> None:
        self._files = files
        self._file_size = file_size
        self._worker = worker
        self._warnings = RareWarnings(_log)
        self._ahead: _Ahead | None = None
        self._error: Exception | None = None
        self.on_made: list[Callable[[], object]] = []
        """Called on the loop when the worker has made a file, or cannot."""

    @property
    def is_late(self) -> bool:
        """True while the next file is asked for and the worker has not come to its end."""
        return self._ahead is not None and not self._ahead.is_done

    def retry(self) -> None:
        """Have the worker try once more, if it could not make the file."""
        if self._ahead is not None and self._error is not None:
            path, self._ahead = self._ahead.path, None
            self.prepare(path)

    def prepare(self, path: Path) -> None:
        """Have the worker make this file. A second call for the same file does nothing."""
        if self._ahead is not None and self._ahead.path == path:
            return
        self._ahead = ahead = _Ahead(self._files, path, self._file_size)
        self._error = None
        self._worker.submit(ahead.make, lambda _result, error: self._made(ahead, error))

    def prepare_now(self, path: Path) -> None:
        """Make this file on this thread. Raises OSError."""
        ahead = _Ahead(self._files, path, self._file_size)
        ahead.make()
        ahead.is_done = True
        self._ahead = ahead

    def _made(self, ahead: _Ahead, error: Exception | None) -> None:
        ahead.is_done = True
        if error is not None:
            self._warnings.warn("ahead", "the next file of the log could not be made ahead: %s", error)
        if self._ahead is ahead:
            self._error = error
        call_each(self.on_made)

    def open_file(self, path: Path) -> File:
        """The file to append to next. Raises OSError or StoreError; may be called again after that."""
        if self._ahead is None or self._ahead.path != path:
            self.remove_unused()  # a log that begins or goes on elsewhere must not leave a gap between its files
            self._ahead = _Ahead(self._files, path, self._file_size)
        file = self._ahead.take()
        self._ahead = self._error = None
        return file

    def remove_unused(self) -> None:
        """Remove a file made ahead but never used (stop). Raises OSError."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
