"""A disk that fails on request.

Owns        the faults of a plan, and the log of its calls.
Must not know   the content of files.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.disk.seam import Bytes, Closeable, File, Files

__all__ = ["Fault", "FaultPlan", "FaultyFiles"]


@dataclass(slots=True)
class Fault:
    """One fault: in which call, on which files, after how many calls, how often, how.

    `call` is a method name of File or Files ("pwrite", "sync", "rename", ...). `path_part` must occur in the path.
    `after` calls go well first, then `times` of them fail (-1: all).
    `error` is the errno raised; with None the call does nothing and reports success (a lost sync, a lost write).
    `keep_bytes`: a pwrite first writes that many bytes (a torn write), so does a write_bytes without room.
    """

    call: str
    path_part: str = ""
    after: int = 0
    times: int = -1
    error: int | None = errno.EIO
    keep_bytes: int = 0


@dataclass(slots=True)
class FaultPlan:
    """The faults of a disk, and the calls it has seen; faults may be added and cleared while it runs."""

    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, Path]] = field(default_factory=list)
    free_bytes: int | None = None
    """The free bytes that `disk_usage` reports; None: those of the disk."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault) -> FaultPlan:
        """Add a fault; returns the plan, so that calls can be chained."""
        with self._lock:
            self.faults.append(fault)
        return self

    def clear(self) -> None:
        """The disk works again."""
        with self._lock:
            self.faults.clear()

    def take(self, call: str, path: Path) -> Fault | None:
        """Note a call; returns the fault to play, or None."""
        with self._lock:
            self.calls.append((call, path))
            for fault in self.faults:
                if fault.call != call or fault.path_part not in str(path):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                elif fault.times != 0:
                    fault.times -= 1
                    return fault
        return None


def _raise(fault: Fault, path: Path) -> None:
    if fault.error is not None:
        raise OSError(fault.error, os.strerror(fault.error), str(path))


class _FaultyFile:
    __slots__ = ("_file", "_plan", "path")

    def __init__(self, file: File, plan: FaultPlan) -> None:
        self.path = file.path
        self._file = file
        self._plan = plan

    @property
    def size(self) -> int:
        return self._file.size

    def pread(self, size: int, offset: int) -> bytes:
        if (fault := self._plan.take("pread", self.path)) is not None:
            _raise(fault, self.path)
            return b""
        return self._file.pread(size, offset)

    def is_zero_from(self, offset: int) -> bool:
        return self._file.is_zero_from(offset)

    def stretches(self) -> list[tuple[int, int]]:
        return self._file.stretches()

    @property
    def holes_take_space(self) -> bool:
        return self._file.holes_take_space

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        return None if self._plan.take("pread_now", self.path) is not None else self._file.pread_now(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        if (fault := self._plan.take("pwrite", self.path)) is not None:
            if fault.keep_bytes:
                self._file.pwrite(memoryview(data).cast("B")[: fault.keep_bytes], offset)
            _raise(fault, self.path)
            return
        self._file.pwrite(data, offset)

    def sync(self) -> None:
        if (fault := self._plan.take("sync", self.path)) is not None:
            _raise(fault, self.path)
            return
        self._file.sync()

    def view(self) -> memoryview:
        return self._file.view()

    def drop_view(self) -> bool:
        return self._file.drop_view()

    def is_resident(self, size: int, offset: int) -> bool:
        return self._plan.take("is_resident", self.path) is None and self._file.is_resident(size, offset)

    def truncate(self, size: int) -> None:
        if (fault := self._plan.take("truncate", self.path)) is not None:
            _raise(fault, self.path)
            return
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class FaultyFiles:
    """Another disk, with the faults of a plan."""

    def __init__(self, inner: Files, plan: FaultPlan | None = None) -> None:
        self.inner = inner
        self.plan = plan or FaultPlan()

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open a file, whose calls have the faults of the plan, too."""
        if (fault := self.plan.take("open", path)) is not None:
            _raise(fault, path)
        return _FaultyFile(self.inner.open(path, size=size, create=create, read_only=read_only), self.plan)

    def exists(self, path: Path) -> bool:
        """As the inner disk."""
        return self.inner.exists(path)

    def is_dir(self, path: Path) -> bool:
        """As the inner disk."""
        return self.inner.is_dir(path)

    def size(self, path: Path) -> int:
        """As the inner disk."""
        return self.inner.size(path)

    def modified_ms(self, path: Path) -> int:
        """As the inner disk."""
        return self.inner.modified_ms(path)

    def list_dir(self, path: Path) -> list[str]:
        """As the inner disk."""
        return self.inner.list_dir(path)

    def make_dirs(self, path: Path) -> None:
        """May fail."""
        self._do("make_dirs", path, self.inner.make_dirs, path)

    def remove(self, path: Path) -> None:
        """May fail."""
        self._do("remove", path, self.inner.remove, path)

    def rename(self, source: Path, target: Path) -> None:
        """May fail; the plan is asked about the source."""
        self._do("rename", source, self.inner.rename, source, target)

    def link(self, source: Path, target: Path) -> None:
        """May fail; the plan is asked about the source."""
        self._do("link", source, self.inner.link, source, target)

    def read_bytes(self, path: Path) -> bytes:
        """May fail."""
        if (fault := self.plan.take("read_bytes", path)) is not None:
            _raise(fault, path)
        return self.inner.read_bytes(path)

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """May fail; a full disk leaves a file with nothing in it."""
        if (fault := self.plan.take("write_bytes", path)) is not None:
            if fault.error == errno.ENOSPC:
                self.inner.write_bytes(path, memoryview(data).cast("B")[: fault.keep_bytes])
            _raise(fault, path)
            return
        self.inner.write_bytes(path, data)

    def make_private(self, path: Path) -> None:
        """May fail."""
        self._do("make_private", path, self.inner.make_private, path)

    def sync_dir(self, path: Path) -> None:
        """May fail."""
        self._do("sync_dir", path, self.inner.sync_dir, path)

    def sync_all(self, path: Path) -> bool:
        """As the inner disk; a fault of it says that the machine cannot."""
        return self.plan.take("sync_all", path) is None and self.inner.sync_all(path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """As the inner disk, or what the plan says."""
        total, free = self.inner.disk_usage(path)
        return total, free if self.plan.free_bytes is None else self.plan.free_bytes

    def lock(self, path: Path) -> Closeable:
        """As the inner disk."""
        return self.inner.lock(path)

    def _do(self, call: str, path: Path, action: Callable[..., None], *arguments: Any) -> None:
        if (fault := self.plan.take(call, path)) is not None:
            _raise(fault, path)
            return
        action(*arguments)
