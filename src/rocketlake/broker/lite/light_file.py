"""The file lightQueues: the table of light queues as it was once, so that a start reads the log behind it only.

Owns        its bytes, whether it is about the log that is there.
Must not know   when it is written, what the numbers of the table mean (light_queues.py).

The file counts up to a place of the log, and holds a checksum of the bytes before that place. A log that was cut and
has grown again has other bytes there: the file is not about it. All that the file says can be read from the log, so a
file that is lost, broken or of another log costs time only.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from rocketlake.base.disk.seam import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import Worker, run_on
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.message_store import MessageStore

__all__ = ["LightFile", "QueueRead", "SavedParent", "TableBytes"]

_log = get_logger(__name__)

_MAGIC = b"RLLIGHT1"
_HEAD = struct.Struct(">8sqII")  # magic, log end, checksum of the log before it, parents
_PARENT = struct.Struct(">HII")  # bytes of its name, queues, light queues; then the name
_QUEUE = struct.Struct(">Iqq")  # queue id, queue offset, physical offset
_CHECKSUM = struct.Struct(">I")
_KEY_BYTES, _END_BYTES = 16, 26
_PAIR_BYTES = _KEY_BYTES + _END_BYTES
_TAIL_BYTES = 64
"""Fewer than the shortest record has: they are the end of the last one, with its properties."""


class QueueRead(NamedTuple):
    """How far a queue of a parent was read."""

    offset: QueueOffset
    """Of the message to read next."""
    last: PhysicalOffset
    """Where the message before it lies: another one lies there if the topic was made anew."""


class SavedParent(NamedTuple):
    """What the file says of one parent."""

    name: str
    reads: dict[int, QueueRead]
    """By queue id. The file holds all messages before these places."""
    pairs: memoryview

    def steps(self, at_once: int) -> Iterator[list[tuple[int, int]]]:
        """Its light queues, so many at a step: key, packed end."""
        step = at_once * _PAIR_BYTES
        for first in range(0, len(self.pairs), step):
            some = self.pairs[first : first + step]
            yield [
                (int.from_bytes(some[at : at + _KEY_BYTES]), int.from_bytes(some[at + _KEY_BYTES : at + _PAIR_BYTES]))
                for at in range(0, len(some), _PAIR_BYTES)
            ]


class TableBytes:
    """A file in the making: a parent, its light queues some at a time, the next parent."""

    def __init__(self) -> None:
        self._data = bytearray(_HEAD.size)
        self._parents = 0
        self._parent_at = 0

    def begin(self, parent: str, reads: dict[int, QueueRead]) -> None:
        """The light queues that are added next are of this parent."""
        name = parent.encode()
        self._parents += 1
        self._parent_at = len(self._data)
        self._data += _PARENT.pack(len(name), len(reads), 0) + name
        for queue_id, read in reads.items():
            self._data += _QUEUE.pack(queue_id, *read)

    def add(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Light queues: key, packed end."""
        for key, end in pairs:
            self._data += key.to_bytes(_KEY_BYTES) + end.to_bytes(_END_BYTES)
        name_bytes, queues, count = _PARENT.unpack_from(self._data, self._parent_at)
        _PARENT.pack_into(self._data, self._parent_at, name_bytes, queues, count + len(pairs))

    def finish(self, log_end: PhysicalOffset, log_checksum: int) -> bytearray:
        """The bytes of the file; the table holds all messages before `log_end` that were read."""
        _HEAD.pack_into(self._data, 0, _MAGIC, log_end, log_checksum, self._parents)
        self._data += _CHECKSUM.pack(crc32(self._data))
        return self._data


class LightFile:
    """The file of one store."""

    def __init__(self, path: Path, files: Files, worker: Worker, store: MessageStore) -> None:
        """`worker` serves this file only; who starts the table closes it."""
        self.path = path
        self._fresh = path.with_name(path.name + ".tmp")
        self.worker = worker
        self._files = files
        self._store = store

    async def sweep(self) -> None:
        """Delete what a crash left of a file in the making: the next one may be long in coming."""
        await run_on(self.worker, self._drop_fresh)

    async def log_checksum(self, log_end: PhysicalOffset) -> int:
        """Of the last bytes of the log before this place, which can be read. OSError."""
        first = PhysicalOffset(max(0, log_end - _TAIL_BYTES))
        part = await self._store.read(partial(self._store.log_part, first, log_end - first))
        return 0 if part is None else crc32(part.view, part.start & 0xFFFFFFFF)

    async def write(self, table: TableBytes, log_end: PhysicalOffset, log_checksum: int) -> None:
        """Replace the file. OSError if the disk refuses: the one before stays."""
        await run_on(self.worker, lambda: self._replace(table.finish(log_end, log_checksum)))

    def _replace(self, data: bytearray) -> None:
        self._files.make_dirs(self.path.parent)
        try:
            self._files.write_bytes(self._fresh, data)
            self._files.rename(self._fresh, self.path)
        except OSError:
            self._drop_fresh()  # messages need the room that it takes
            raise
        self._files.sync_dir(self.path.parent)

    def _drop_fresh(self) -> None:
        with suppress(OSError):  # there is none, or the next file replaces it
            self._files.remove(self._fresh)

    async def read(self) -> list[SavedParent]:
        """What the file says; nothing if there is none that is whole and about this log."""
        try:
            data = await run_on(self.worker, self._whole)
            if data is None:
                return []
            _magic, log_end, log_checksum, parents = _HEAD.unpack_from(data)
            end = self._store.max_physical_offset
            if log_end > end or await self.log_checksum(PhysicalOffset(log_end)) != log_checksum:
                _log.info("%s is about another log, or one before it was cut: the log is read", self.path)
                return []
        except OSError as error:
            _log.warning("%s cannot be read, the log is: %r", self.path, error)
            return []
        return list(_parents(data, parents))

    def _whole(self) -> memoryview | None:
        if not self._files.exists(self.path):
            return None
        data = memoryview(self._files.read_bytes(self.path))
        size = len(data) - _CHECKSUM.size
        if data[:8] != _MAGIC or size < _HEAD.size or _CHECKSUM.unpack_from(data, size)[0] != crc32(data[:size]):
            _log.warning("%s is broken: the log is read in place of it", self.path)
            return None
        return data


def _parents(data: memoryview, count: int) -> Iterator[SavedParent]:
    at = _HEAD.size
    for _ in range(count):
        name_bytes, queues, light_queues = _PARENT.unpack_from(data, at)
        at += _PARENT.size
        name = str(data[at : at + name_bytes], "utf-8")
        at += name_bytes
        reads = {}
        for queue_id, offset, last in _QUEUE.iter_unpack(data[at : at + queues * _QUEUE.size]):
            reads[queue_id] = QueueRead(QueueOffset(offset), PhysicalOffset(last))
        at += queues * _QUEUE.size
        yield SavedParent(name, reads, data[at : at + light_queues * _PAIR_BYTES])
        at += light_queues * _PAIR_BYTES
