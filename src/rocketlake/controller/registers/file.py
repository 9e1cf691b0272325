"""A register in one file, for one controller: nothing else has to run beside it.

Owns        the file, its lock, its format; the order of swaps.
Must not know   what the values mean, other controllers.

A swap writes the whole of it to a new file, syncs that, renames it over the old one and syncs the folder: after a
crash the file is the one before or the one after. There is no second copy to fall back to: an older state would have
forgotten a master, and could give its epoch to another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Closeable, Files
from rocketlake.base.errors import LinkError, StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.worker import ThreadWorker, Worker, run_on
from rocketlake.controller.registers.register import ABSENT, Changed, Conflict, OutcomeUnknown, Swap, Swapped, Versioned
from rocketlake.controller.registers.watches import Watches

__all__ = ["FileRegister"]

_log = get_logger(__name__)

FORMAT = 1


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of the file."""

    v: int = FORMAT
    revision: int = 0
    """Of the last change."""
    values: dict[str, tuple[str, int]] = {}


class _Format(msgspec.Struct):
    v: int = FORMAT


class FileRegister(Service):
    """The register of a single controller. Values are UTF-8 text, so that the file can be read by people."""

    def __init__(
        self, path: Path, *, files: Files | None = None, worker: Worker | None = None, clock: Clock | None = None
    ) -> None:
        """`path`: the file; its folder is made. `worker`: where the disk is waited for."""
        super().__init__("register", clock)
        self.path = path
        self._files: Files = files or PosixFiles()
        self._worker: Worker = worker or ThreadWorker("register")
        self._watches = Watches()
        self._turn = asyncio.Lock()
        self._content: _Content | None = None
        """None: not known, it has to be loaded."""
        self._lock: Closeable | None = None

    async def start(self) -> None:
        """Lock and load. StoreError if another controller holds the file, if it is broken or of a newer version."""
        await super().start()
        try:
            self._lock = await run_on(self._worker, self._take_lock)
            self._content = await run_on(self._worker, self._load)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the swap under way, give the file back."""
        await super().stop()
        await self._worker.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def read(self, prefix: str) -> dict[str, Versioned]:
        """The values that are on disk."""
        async with self._turn:
            content = await self._known()
        return {
            key: (value.encode(), revision)
            for key, (value, revision) in content.values.items()
            if key.startswith(prefix)
        }

    async def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        """On disk when it returns. OutcomeUnknown if the disk refuses: the next call loads the file again."""
        # A task of its own: if the caller is cancelled, the change is still taken over when it is on disk.
        return await asyncio.shield(self.spawn("swap", self._swap(key, revision, {**(also or {}), key: value})))

    def watch(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """Called when the change is on disk."""
        return self._watches.add(prefix, changed)

    async def _swap(self, key: str, revision: int, changes: Mapping[str, bytes | None]) -> Swap:
        async with self._turn:
            old = await self._known()
            now, current = old.values.get(key, ("", ABSENT))
            if current != revision:
                return Conflict(now.encode() if current else None, current)
            new = _changed(old, changes)
            self._content = None
            try:
                await run_on(self._worker, lambda: self._save(new))
            except OSError as error:
                _log.error("cannot write %s: %s", self.path, error)
                raise OutcomeUnknown(
                    f"the register cannot be written: {error}", where=str(self.path), hint="mend the disk, or make room"
                ) from error
            self._content = new
        self._watches.tell(changes.keys())
        return Swapped(new.revision)

    async def _known(self) -> _Content:
        if self._content is None:
            try:
                self._content = await run_on(self._worker, self._load)
            except (OSError, StoreError) as error:
                raise LinkError(f"the register cannot be read: {error}", hint="mend the disk") from error
        return self._content

    # -- on the worker -------------------------------------------------------------------------------------------------

    def _take_lock(self) -> Closeable:
        self._files.make_dirs(self.path.parent)
        try:
            return self._files.lock(self.path.with_name(self.path.name + ".lock"))
        except StoreError as error:
            raise StoreError(
                "another controller uses this register: in a file there can be only one",
                path=str(self.path),
                hint="stop the other name server, or keep the register of both in etcd",
            ) from error

    def _load(self) -> _Content:
        """What is in the file, safe from a power cut."""
        if not self._files.exists(self.path):
            return _Content()
        file = self._files.open(self.path)
        try:
            file.sync()
            text = file.pread(file.size, 0)
        finally:
            file.close()
        self._files.sync_dir(self.path.parent)
        try:
            version = msgspec.json.decode(text, type=_Format).v
            if version > FORMAT:
                raise self._broken(f"it has format {version}, this version reads {FORMAT}", "upgrade RocketLake")
            return msgspec.json.decode(text, type=_Content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(
                str(error),
                "put back the file as it was just before, and no older one: an older one may name a master that lacks"
                " acknowledged messages",
            ) from error

    def _save(self, content: _Content) -> None:
        new = self.path.with_name(self.path.name + ".new")
        self._files.write_bytes(new, msgspec.json.format(msgspec.json.encode(content), indent=1))
        self._files.rename(new, self.path)
        self._files.sync_dir(self.path.parent)

    def _broken(self, reason: Any, cure: str) -> StoreError:
        return StoreError(f"the register cannot be read: {reason}", path=str(self.path), hint=cure)


def _changed(old: _Content, changes: Mapping[str, bytes | None]) -> _Content:
    revision = old.revision + 1
    values = dict(old.values)
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = (value.decode(), revision)
    return _Content(revision=revision, values=values)
