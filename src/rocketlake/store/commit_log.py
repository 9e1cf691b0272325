"""The commit log: every message of every topic, one after the other.

Owns        the next physical offset, the bytes of a record, rolling to the next file, reading by physical offset.
Must not know   consume queues, indexes, replication, when bytes are flushed.

Invariant: a record (and a whole batch) never spans two files; a blank record closes a file.
Invariant: after an append that failed the log ends where it ended before, in zeros.

Bytes: docs/internals/record.md. Golden samples: tests/golden/.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rocketlake.base.clock import Millis
from rocketlake.base.crc32 import crc32
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.worker import Worker
from rocketlake.codec.record import encode_blank, encode_record, record_size
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_V1, MAGIC_V2, STORE_MS_AT, SYS_FLAG_AT
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.sys_flag import BORN_HOST_V6
from rocketlake.store.allocate import Allocate
from rocketlake.store.config import StoreConfig
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.mapped_file import Bytes, LogFile
from rocketlake.store.mapped_file_list import LogFiles, MappedFileList
from rocketlake.store.paths import offset_file_name
from rocketlake.store.results import PutMessage, PutStatus
from rocketlake.store.write_pool import WritePool

if TYPE_CHECKING:
    from rocketlake.codec import record_run

__all__ = ["RECORD_HEAD_BYTES", "AppendFailed", "CommitLog", "is_record", "record_bytes"]

_log = get_logger(__name__)

_HEAD = struct.Struct(">ii20xq")  # total size, magic, ..., physical offset
RECORD_HEAD_BYTES = _HEAD.size
_STORE_MS = struct.Struct(">q")
_SYS_FLAG = struct.Struct(">i")
_NEVER = Millis(-1)
_V6_EXTRA = 12
_HEADS_BYTES_MAX = 256 * 1024  # of a record, or of the records of a usual batch, beside the bodies
_COMMITTED_AT_ONCE = 16 * 1024 * 1024  # of the write pool: some milliseconds
_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class AppendFailed(StoreError):
    """Nothing was appended; `status` is the answer for the sender, the text says why."""

    def __init__(self, status: PutStatus, what: str, *, path: str = "", offset: int = -1, hint: str = "") -> None:
        super().__init__(what, path=path, offset=offset, hint=hint)
        self.status = status


class CommitLog:
    """Appends records and reads them back."""

    def __init__(self, folder: Path, config: StoreConfig, files: Files, worker: Worker) -> None:
        self.file_size = config.commit_log_file_bytes
        self.pool = WritePool(config.write_pool_buffers, self.file_size) if config.uses_write_pool else None
        self._committed_at_once = 0 if config.write_pool_fails_fast else _COMMITTED_AT_ONCE
        self.on_pool_busy: Callable[[], object] = _nobody_commits
        """Called when a put is refused because all write buffers are full: have them committed soon."""
        self.allocate = Allocate(files, self.file_size, worker)
        self.before_look: Callable[[LogFile, int, int], object] = _nobody_minds
        """(file, position, size): called before records are looked at; may raise NotInMemory (disk_wait.py)."""
        self.list: LogFiles = MappedFileList(folder, self.file_size, files, self.allocate.open_file)
        self.broken = ""
        """Why nothing can be appended any more; "" while all is well."""
        self.disk_error = ""
        """Why the disk refused the last append, or the file that it needed; "" after one that went well."""
        self.last_store_ms = Millis(0)
        """Store time of the last record appended."""
        self._reserve = min(self.file_size // 4, config.body_bytes_max + _HEADS_BYTES_MAX)
        self._disk = files
        self._warnings = RareWarnings(_log)

    # -- positions -----------------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> PhysicalOffset:
        """First physical offset that is still there."""
        return self.list.min_offset

    @property
    def max_offset(self) -> PhysicalOffset:
        """Where readable records end."""
        return self.list.max_offset

    def next_file_start(self, offset: PhysicalOffset) -> PhysicalOffset:
        """Physical offset at which the file behind the one with `offset` starts."""
        return offset - offset % self.file_size + self.file_size

    # -- appending -----------------------------------------------------------------------------------------------------

    def append(self, message: PutMessage, queue_offset: QueueOffset, store_ms: Millis) -> tuple[PhysicalOffset, int]:
        """Append one record; returns (physical offset, size). Raises AppendFailed: then nothing was appended."""
        body, properties = message.body, message.properties
        topic = message.topic.encode()
        born_host, store_host = message.born_host, message.store_host
        mapped = self._file_with_room(
            record_size(len(topic), len(body), len(properties), len(born_host), len(store_host))
        )
        offset = mapped.start + mapped.wrote
        record = encode_record(
            topic,
            body,
            properties,
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=queue_offset,
            physical_offset=offset,
            sys_flag=message.sys_flag,
            born_ms=message.born_ms,
            born_host=born_host,
            store_ms=store_ms,
            store_host=store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            body_crc=crc32(body),
        )
        self._write(mapped, record)
        self.last_store_ms = store_ms
        return offset, len(record)

    def append_batch(
        self,
        message: PutMessage,
        items: Sequence[tuple[int, Bytes, bytes]],
        queue_offset: QueueOffset,
        store_ms: Millis,
    ) -> tuple[list[PhysicalOffset], int]:
        """Append one record per (flag, body, properties) in one write, all in one file.

        Returns (physical offsets, bytes). Raises AppendFailed: then nothing was appended.
        """
        topic = message.topic.encode()
        born_host, store_host = message.born_host, message.store_host
        hosts = len(born_host), len(store_host)
        total = sum(record_size(len(topic), len(body), len(properties), *hosts) for _flag, body, properties in items)
        mapped = self._file_with_room(total)
        offset = mapped.start + mapped.wrote
        offsets: list[PhysicalOffset] = []
        chunk = bytearray()
        for number, (flag, body, properties) in enumerate(items):
            offsets.append(offset + len(chunk))
            chunk += encode_record(
                topic,
                body,
                properties,
                queue_id=message.queue_id,
                flag=flag,
                queue_offset=queue_offset + number,
                physical_offset=offsets[-1],
                sys_flag=message.sys_flag,
                born_ms=message.born_ms,
                born_host=born_host,
                store_ms=store_ms,
                store_host=store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=0,
                body_crc=crc32(body),
            )
        self._write(mapped, chunk)
        self.last_store_ms = store_ms
        return offsets, total

    def append_large(self, batch: LargeBatch, queue_offset: QueueOffset, store_ms: Millis) -> PhysicalOffset:
        """Append a batch with ready records in one write; returns its offset. AppendFailed: nothing was appended."""
        mapped = self._file_with_room(len(batch.records))
        offset = mapped.start + mapped.wrote
        batch.number(queue_offset, offset, store_ms)
        self._write(mapped, batch.records)
        self.last_store_ms = store_ms
        return offset

    def append_run(self, run: record_run.RecordRun, store_ms: Millis) -> bool:
        """Append the records of a run in one write. False: nothing was appended, and `append` finds the reason."""
        last = self.list.last
        if self.broken or last is None or run.size + BLANK_BYTES > last.room:
            return False
        try:
            self._write(last, run.encode(last.start + last.wrote, store_ms))
        except AppendFailed:
            return False
        self.last_store_ms = store_ms
        return True

    def append_raw(self, data: Bytes, offset: PhysicalOffset, store_ms: Millis) -> None:
        """Append whole records that another store has encoded for `offset`, the end of this log, all of one file.

        The caller has looked at them (raw_append.py); `store_ms` is that of the last one. Raises AppendFailed: then
        nothing was appended.
        """
        mapped = self._file_at(offset)
        if len(data) + BLANK_BYTES > mapped.room:
            raise AppendFailed(
                PutStatus.MESSAGE_ILLEGAL,
                f"{len(data)} bytes of records do not fit into the file",
                offset=offset,
                hint="use the mappedFileSizeCommitLog of the store that they come from",
            )
        self._write(mapped, data)
        self.last_store_ms = store_ms

    def close_raw(self, offset: PhysicalOffset) -> None:
        """Close the file that ends with the log at `offset`, as the other store has closed it. Raises AppendFailed."""
        mapped = self._file_at(offset)
        self._write(mapped, encode_blank(mapped.room), closes=True)

    def _file_at(self, offset: PhysicalOffset) -> LogFile:
        """The file to append to, if the log ends at `offset`; a log without files may begin where any file starts."""
        if self.broken:
            raise AppendFailed(PutStatus.SERVICE_NOT_AVAILABLE, self.broken)
        last = self.list.last
        if (last is not None and last.start + last.wrote != offset) or (last is None and offset % self.file_size):
            raise AppendFailed(
                PutStatus.SERVICE_NOT_AVAILABLE,
                f"the records are of {offset}, the log ends at {self.list.wrote_offset}",
                hint="follow from the end of this log on",
            )
        return last if last is not None and not last.is_full else self._roll(offset)

    # -- cutting -------------------------------------------------------------------------------------------------------

    def cut(self, end: PhysicalOffset, *, is_read: bool = False) -> None:
        """Forget everything from `end` on. With `is_read` views of readers keep their bytes, and the cut is on disk.

        Raises OSError, StoreError: then no position is to be trusted any more.
        """
        log = self.list
        if self.pool is not None:
            log.commit()
            for mapped in log.files:
                if mapped.end > end and (buffer := mapped.give_up_buffer()) is not None:
                    self.pool.give_back(buffer)
        last = log.last
        if last is not None and last.start > max(end - 1, log.min_offset):
            self.allocate.remove_unused()  # the one made ahead lies behind the files that go
        log.truncate(end, is_read=is_read)
        if is_read and log.last is not None:
            log.last.file.sync()

    def _file_with_room(self, size: int) -> LogFile:
        """The file for `size` bytes of records; a full one is closed with a blank record and the next one taken."""
        if self.broken:
            raise AppendFailed(PutStatus.SERVICE_NOT_AVAILABLE, self.broken)
        last = self.list.last
        if last is not None and size + BLANK_BYTES <= last.room:
            return last
        if size + BLANK_BYTES > self.file_size:
            raise AppendFailed(
                PutStatus.MESSAGE_ILLEGAL,
                f"the record has {size} bytes, a commit log file {self.file_size}",
                hint="send smaller messages, or set a larger mappedFileSizeCommitLog in a new store",
            )
        if last is not None and not last.is_full:
            self._write(last, encode_blank(last.room), closes=True)
        return self._roll()

    def _roll(self, first_start: PhysicalOffset | None = None) -> LogFile:
        if self.pool is not None and not self.pool.free:
            # What a master sends is taken: it has acknowledged it.
            self._free_buffers(self._committed_at_once if first_start is None else _COMMITTED_AT_ONCE)
        try:
            mapped = self.list.file_for_append(first_start)
        except (OSError, StoreError) as error:
            self.disk_error = f"cannot make the next commit log file: {error}"
            raise AppendFailed(PutStatus.CREATE_FILE_FAILED, self.disk_error, path=str(self.list.folder)) from error
        if self.pool is not None:
            mapped.lend_buffer(self.pool.borrow())
        self.make_ahead()
        return mapped

    def make_first(self) -> None:
        """Make the first file of an empty log, on this thread. Raises OSError.

        An empty one of an earlier start, which was killed, goes: the log of a replica may begin elsewhere.
        """
        if self.list.wrote_offset == 0:
            self.list.destroy()
            self.allocate.prepare_now(self.list.folder / offset_file_name(0))

    def make_ahead(self) -> None:
        """Have the worker make the file behind the last one, so that the roll to it costs nothing."""
        if self.list.last is not None:
            self.allocate.prepare(self.list.folder / offset_file_name(self.list.last.end))

    @property
    def is_late(self) -> bool:
        """True while the next put may need a file that is still being made: it would wait for it, on the loop."""
        last = self.list.last
        return self.allocate.is_late and (last is None or last.room < self._reserve)

    def _free_buffers(self, bytes_max: int) -> None:
        """Have a buffer for the next file: all files so far are full, so a commit sets theirs free.

        A sender, and all requests behind it, does not wait for a commit of more than `bytes_max`.
        """
        waiting = self.list.wrote_offset - self.list.max_offset
        if waiting > bytes_max:
            self.on_pool_busy()
            raise AppendFailed(
                PutStatus.POOL_BUSY,
                f"all {self.pool.count if self.pool else 0} write buffers are full, {waiting} bytes wait for the disk",
                path=str(self.list.folder),
                hint="send again; raise transientStorePoolSize or lower commitIntervalCommitLog if it goes on",
            )
        try:
            self.commit()
        except OSError as error:
            raise self._refused(self.list.files[-1], error) from error

    def _write(self, mapped: LogFile, data: Bytes, *, closes: bool = False) -> None:
        try:
            if closes:
                mapped.close_with(data)
            else:
                mapped.append(data)
        except OSError as error:
            raise self._refused(mapped, error) from error
        except StoreError as error:
            # A torn record lies in the file and could not be erased: a walk would end there, before later records.
            self.broken = str(error)
            raise AppendFailed(PutStatus.SERVICE_NOT_AVAILABLE, self.broken) from error
        self.disk_error = ""

    def _refused(self, mapped: LogFile, error: OSError) -> AppendFailed:
        # Logged even if the next write works: a dying disk must not stay unseen.
        self._warnings.warn("write", "a write of %s at %d failed: %s", mapped.path, mapped.wrote, error)
        full = error.errno in _SPACE_ERRORS
        self.disk_error = f"write failed: {os.strerror(error.errno or 0)}{self._free_text() if full else ''}"
        return AppendFailed(
            PutStatus.DISK_FULL if full else PutStatus.SERVICE_NOT_AVAILABLE,
            self.disk_error,
            path=str(mapped.path),
            offset=mapped.wrote,
            hint="free space on this disk, or lower fileReservedTime or diskMaxUsedSpaceRatio" if full else "",
        )

    def _free_text(self) -> str:
        try:
            return f", {self._disk.disk_usage(self.list.folder)[1]} bytes free"
        except OSError:
            return ""  # the first error of a disk in trouble is the one to report

    # -- write pool ----------------------------------------------------------------------------------------------------

    def commit(self, least_pages: int = 0) -> bool:
        """Carry the write buffers into their files; True when something became readable. Raises OSError."""
        if self.pool is None:
            return False
        before = self.list.max_offset
        moved = self.list.commit(least_pages)
        if moved:
            for mapped in self.list.files[-self.pool.count - 1 :]:
                if (buffer := mapped.take_buffer()) is not None:
                    self.pool.give_back(buffer)
        return self.list.max_offset > before

    # -- reading -------------------------------------------------------------------------------------------------------

    def view(self, offset: PhysicalOffset, size: int) -> memoryview | None:
        """`size` readable bytes at physical `offset`; None if not all are there."""
        mapped = self.list.find(offset)
        found = None if mapped is None else mapped.read(offset - mapped.start, size)
        if mapped is not None and found:
            self.before_look(mapped, offset - mapped.start, size)
        return found

    def record(self, offset: PhysicalOffset) -> memoryview | None:
        """The whole record that starts at `offset`; None if none starts there (offsets may come from outside)."""
        head = self.view(offset, _HEAD.size)
        if head is None:
            return None
        record = self.view(offset, _HEAD.unpack(head)[0])
        return record if record is not None and is_record(record, offset) else None

    def store_ms_at(self, offset: PhysicalOffset) -> Millis:
        """Store time of the record at `offset`, -1 when it cannot be read."""
        flag = self.view(offset + SYS_FLAG_AT, _SYS_FLAG.size)
        if flag is None:
            return _NEVER
        position = STORE_MS_AT + (_V6_EXTRA if _SYS_FLAG.unpack(flag)[0] & BORN_HOST_V6 else 0)
        stored = self.view(offset + position, _STORE_MS.size)
        return _NEVER if stored is None else Millis(_STORE_MS.unpack(stored)[0])


def _nobody_minds(_mapped: LogFile, _position: int, _size: int) -> None:
    """Until the store is there."""


def _nobody_commits() -> None:
    """Until the store is there."""


def is_record(data: memoryview, offset: PhysicalOffset) -> bool:
    """True if these bytes say that they are the record of this length at this physical offset."""
    return 0 < len(data) == record_bytes(data, offset)


def record_bytes(head: bytes | memoryview, offset: PhysicalOffset) -> int:
    """How long the record at this physical offset is, as its first RECORD_HEAD_BYTES say; 0 if they are not its own."""
    if len(head) < _HEAD.size:
        return 0
    size, magic, own_offset = _HEAD.unpack_from(head)
    return int(size) if own_offset == offset and magic in (MAGIC_V1, MAGIC_V2) else 0
