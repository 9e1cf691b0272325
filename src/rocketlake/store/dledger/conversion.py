"""Conversion: the store of a stopped member of a DLedger group becomes an ordinary store in a new folder.

Owns        which files of the source are taken over, the order of the steps, what is counted.
Must not know   the command line, other members of the group.

The source is only read. The target has another name until it is whole and audited, so a conversion that was interrupted
is begun again from the start. Queue offsets stay as they are, and with them the progress of consumers. Physical offsets
change, as the headers of the entries go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.audit import Audit
from rocketlake.store.config import StoreConfig
from rocketlake.store.dispatch_scan import BLANK, scan
from rocketlake.store.dledger.entries import ANOTHER_MEMBER, DLedgerLog, damaged
from rocketlake.store.dledger.plain_log import PlainLog
from rocketlake.store.dledger.tables import Reached, copy_tables, read_reached
from rocketlake.store.message_store import MessageStore
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.paths import StorePaths
from rocketlake.store.removal import Removed

__all__ = ["Conversion", "Converted"]

_CHUNK_BYTES = 4 * 1024 * 1024
_PROGRESS_BYTES = 8 * 1024 * 1024
_NEVER_HOURS = 1_000_000
_MARK = "converting"
"""A file in a target that is not whole yet: who finds it may delete the folder."""
_WHEEL, _WHEEL_TOPIC = "timerwheel", "rmq_sys_wheel_timer"
_BUG = "report it with the line above; the source is as it was"

Progress = Callable[[int], object]


def _unheard(_done: int) -> None:
    """For those who show no progress."""


@dataclass(slots=True)
class Converted:
    """What was found, and what was written."""

    records: int = 0
    old_records: int = 0
    """Of these, records from the commit log that the broker had before DLedger."""
    without_record: int = 0
    """Entries that hold no message."""
    last_term: int = -1
    last_index: int = -1
    committed_index: int = -1
    """As the member noted it, up to 3 s before a kill; -1 if it did not."""
    bytes: int = 0
    """Of the new log."""
    file_bytes: int = 0
    """Of each file of it: mappedFileSizeCommitLog of the new broker."""
    was_stopped: bool = True
    """False: the member was killed, and its log ends where its last sound entry does."""
    noted_index: int = -1
    """The last entry that the member noted, at its stop or up to 3 s before a kill; -1 if it did not."""
    reached: Reached = field(default_factory=Reached)
    """Of the tables of this member."""
    older: list[str] = field(default_factory=list)
    """Tables taken from the copy of the save before: the member was killed while it saved them."""
    left: list[str] = field(default_factory=list)
    """Parts of the source that are not taken over."""


class Conversion:
    """One source and one target."""

    def __init__(
        self, source: Path, *, log: Path | None = None, given_up_from: int | None = None, disk: Files | None = None
    ) -> None:
        """`log` if the entries lie elsewhere (storePathDLedgerCommitLog). Raises StoreError, UsageError.

        `given_up_from`: entries from this index on are left out, damaged or not.
        """
        self._disk = disk or PosixFiles()
        self._given_up_from = given_up_from
        self._source = StorePaths(source)
        self._member = self._member_folder(source)
        data = log or self._member / "data"
        self._data = OffsetFiles(data, self._disk)
        self._old = OffsetFiles(self._source.commit_log, self._disk)
        if not self._data.starts:
            raise StoreError(
                "no entries of DLedger here",
                path=str(data),
                hint="give the storePathRootDir of a member, and with --log its storePathDLedgerCommitLog",
            )
        for files in (self._data, self._old):
            if len(OffsetFiles(files.folder, self._disk, with_gaps=True).starts) != len(files.starts):
                raise damaged(files, files.start, "a file before this one is missing")
        self.bytes = self._data.end - self._data.start + self._old.end - self._old.start
        """Length of all files that are read."""

    def look(self, progress: Progress = _unheard) -> Converted:
        """Check every record and write nothing. `progress` hears how many bytes are read."""
        with self._hold():
            return self._walk(None, progress)

    async def run(self, target: Path, config: StoreConfig | None = None, progress: Progress = _unheard) -> Converted:
        """Make the store `target`, which must not be there yet, by the settings of its broker.

        Without them they are RocketMQ's, and the log's files have the source's length. Blocking. Raises StoreError,
        UsageError, OSError; then there is no `target`.
        """
        config = config or StoreConfig(commit_log_file_bytes=self._data.file_size)
        paths = StorePaths(self._begin(target))
        self._disk.make_dirs(paths.commit_log)
        with self._hold():
            tables = copy_tables(self._disk, self._source.config, paths.config)
            log = PlainLog(paths.commit_log, config.commit_log_file_bytes, self._disk)
            done = self._walk(log, progress)
            log.close()
            done.bytes, done.file_bytes = log.end, config.commit_log_file_bytes
            done.older, done.left = tables.older, tables.left + self._timers()
        await self._build(paths, config, done)
        self._disk.remove(paths.root / _MARK)
        self._disk.sync_dir(paths.root)
        self._disk.rename(paths.root, target)
        self._disk.sync_dir(target.parent)
        return done

    def _begin(self, target: Path) -> Path:
        """An empty folder beside `target`, marked as ours: what an interrupted conversion left there goes."""
        unfinished = target.parent / f"{target.name}.unfinished"
        for source in (self._source.root, self._data.folder):
            if any(_overlap(source, folder) for folder in (target, unfinished)):
                raise UsageError(
                    "the target and the source lie in one another",
                    where=f"{source}, {target}",
                    hint="give a target in another folder: the source is not written to",
                )
        if self._disk.exists(target):
            raise UsageError("the target is there already", where=str(target), hint="give a folder that is not there")
        if self._disk.list_dir(unfinished) and not self._disk.exists(unfinished / _MARK):
            raise UsageError(
                "the folder of the unfinished target holds other files",
                where=str(unfinished),
                hint="remove it, or give another target",
            )
        if self._disk.exists(unfinished):
            Removed(self._disk, unfinished, unfinished).remove()
        self._disk.make_dirs(unfinished)
        self._disk.write_bytes(unfinished / _MARK, b"an unfinished conversion: the next one begins anew\n")
        return unfinished

    def _hold(self) -> ExitStack:
        """The lock of the source: its broker must not run. A source on a disk that cannot be written to has none."""
        held = ExitStack()
        if self._disk.exists(self._source.lock):
            with suppress(OSError):
                held.enter_context(closing(self._disk.lock(self._source.lock)))
        return held

    def _timers(self) -> list[str]:
        """Parts of Apache's timer wheel, if messages may wait in it; every broker of 5.x makes an empty wheel.

        A follower's wheel may be older than its log, so that no such message ever came shows in the queues, too.
        """
        wheel, queues = self._source.root / _WHEEL, self._disk.list_dir(self._source.consume_queue)
        if queues and _WHEEL_TOPIC not in queues and self._disk.exists(wheel):
            with closing(self._disk.open(wheel, read_only=True)) as file:
                if file.is_zero_from(0):
                    return []
        return [name for name in self._disk.list_dir(self._source.root) if name.startswith("timer")]

    async def _build(self, paths: StorePaths, config: StoreConfig, done: Converted) -> None:
        """Queues and key index from the new log, as a start after a crash builds them; then all is compared."""
        config = replace(config, commit_log_path="", clean_forcibly=False, file_reserved_hours=_NEVER_HOURS)
        self._disk.write_bytes(paths.abort, b"converted")
        async with MessageStore(paths.root, config, files=self._disk):
            pass
        audit = Audit(paths.root, files=self._disk)
        audit.check_queues()
        if audit.records != done.records:
            raise StoreError(
                f"{audit.records} records were written, not {done.records}", path=str(paths.root), hint=_BUG
            )
        if audit.findings:
            raise StoreError(f"the new store is not sound: {audit.findings[0]}", path=str(paths.root), hint=_BUG)

    # -- the log -------------------------------------------------------------------------------------------------------

    def _walk(self, log: PlainLog | None, progress: Progress) -> Converted:
        reached = read_reached(self._disk, self._source.config)
        done = Converted(was_stopped=not self._disk.exists(self._source.abort), reached=reached)
        noted = self._checkpoint()
        done.committed_index, done.noted_index = noted.get("committedIndex", -1), noted.get("endIndex", -1)
        told = 0
        entries = DLedgerLog(
            self._data,
            noted.get("endIndex") if done.was_stopped else None,
            committed_index=done.committed_index,
            given_up_from=self._given_up_from,
        )
        for read, record in self._records(done, entries):
            if record is not None:
                done.records += 1
                if log is not None:
                    log.append(record)
            if read - told >= _PROGRESS_BYTES:
                progress(told := read)
        if self._given_up_from is not None and done.last_index + 1 != self._given_up_from:
            raise UsageError(
                f"there is no entry {self._given_up_from - 1} to end with: the last one is {done.last_index}",
                where="--give-up-from",
                hint="give the index that the error of the damaged entry names",
            )
        progress(self.bytes)
        return done

    def _records(self, done: Converted, entries: DLedgerLog) -> Iterator[tuple[int, memoryview | None]]:
        """Bytes read so far, and the next record."""
        old_bytes = self._old.end - self._old.start
        for offset, record in self._old_records():
            done.old_records += 1
            yield offset - self._old.start, record
        for entry in entries.entries():
            done.last_term, done.last_index = entry.term, entry.index
            done.without_record += entry.record is None
            yield old_bytes + entry.end - self._data.start, entry.body if entry.record is not None else None

    def _old_records(self) -> Iterator[tuple[int, memoryview]]:
        """Records of the commit log that was there before DLedger; they stand before all entries."""
        for start in self._old.starts:
            position, size = start, _CHUNK_BYTES
            while position < (end := self._old.file_end(start)):
                view = self._old.view(position, min(size, end - position))
                found, taken, status = scan(view, PhysicalOffset(position), True, ())
                for each in found:
                    at = each.physical_offset - position
                    yield each.physical_offset, view[at : at + each.size]
                position += taken
                if status == BLANK or (not taken and self._old.is_zero_from(position)):
                    break
                if not taken and len(view) < size:
                    raise damaged(self._old, position, "no sound record starts there")
                size = _CHUNK_BYTES if taken else 2 * size

    def _member_folder(self, source: Path) -> Path:
        """`dledger-n0` or its like, in the root of a store."""
        names = [name for name in self._disk.list_dir(source) if name.startswith("dledger-")]
        if len(names) != 1:
            raise StoreError(
                f"{len(names) or 'no'} folders of DLedger are here",
                path=str(source),
                hint="give the storePathRootDir of one member: it holds one folder dledger-n0, or n1 ...",
            )
        return source / names[0]

    def _checkpoint(self) -> dict[str, int]:
        """The indexes that the member noted at its stop."""
        try:
            text = self._disk.read_bytes(self._member / "checkpoint").decode()
            pairs = [line.partition("=") for line in text.split() if not line.startswith("#")]
            return {name: int(value) for name, _, value in pairs if value}
        except FileNotFoundError:
            return {}
        except ValueError:
            path = str(self._member / "checkpoint")
            raise StoreError("the checkpoint cannot be read", path=path, hint=ANOTHER_MEMBER) from None


def _overlap(one: Path, other: Path) -> bool:
    """True if one of the folders is the other, or lies in it."""
    one, other = one.resolve(), other.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)
