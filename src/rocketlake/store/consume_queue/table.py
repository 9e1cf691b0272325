"""All consume queues of a store.

Owns        which queues there are, their next offsets, flushing, dropping and cutting all of them.
Must not know   records, the key index, topic settings.

Folders: consumequeue/{topic}/{queue id}/; they appear with the first entry of a queue.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import cast

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import EntryPosition, PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import ENTRY_SIZE
from rocketlake.store.consume_queue.open_files import OpenFiles, descriptors_to_spare
from rocketlake.store.consume_queue.queue import BeganAnew, ConsumeQueue, QueueFiles
from rocketlake.store.consume_queue.tail import QueueTail, Tails
from rocketlake.store.deletions import Deletions
from rocketlake.store.disk_wait import DiskWait, NotInMemory
from rocketlake.store.late_files import READY_MAX, FileLate, LateFiles, NotSynced
from rocketlake.store.mapped_file import MappedFile
from rocketlake.store.mapped_file_list import FlushJob, MappedFileList
from rocketlake.store.offset_files import queue_folders
from rocketlake.store.results import ColdPart

__all__ = ["BadQueueName", "ConsumeQueueTable"]

_log = get_logger(__name__)

_FIRST = QueueOffset(0)
_TAIL_BYTES_MAX = 1024 * 1024  # 50,000 entries: a start after a kill must dispatch them again
_LATE_TIMES = 8
"""While a worker makes files, the tails may take so many times the usual room in memory."""
_LATE_TAILS = 16
"""Files that a worker opens in one call, so that tails can be written and give up their room in memory."""
_LEAVING_TAILS = READY_MAX // 2
"""Tails that one call writes before a thorough round: about a millisecond if their files are open."""
_NOT_A_FOLDER = frozenset(("", ".", ".."))
_NAME_BYTES_MAX = 255  # of one folder name, on the file systems we know


class BadQueueName(StoreError):
    """A topic name that cannot be a folder."""


class ConsumeQueueTable:
    """All queues. A queue exists from its first assigned offset, its files from its first entry."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        *,
        file_size: int = 300_000 * ENTRY_SIZE,
        open_files_max: int = 0,
        tail_bytes_max: int = _TAIL_BYTES_MAX,
        began_anew: BeganAnew | None = None,
        late: LateFiles | None = None,
        wait: DiskWait | None = None,
    ) -> None:
        """`file_size` is rounded up to whole entries; `tail_bytes_max` of all queues may wait in memory.

        `open_files_max` 0: as many as this process may, less what connections need.
        """
        self.folder = folder
        self.file_size = -(-file_size // ENTRY_SIZE) * ENTRY_SIZE
        self.min_physical = PhysicalOffset(0)
        """Where the commit log starts: entries below it count as gone."""
        self._disk = files
        self._open = OpenFiles(files, open_files_max or descriptors_to_spare(), late, wait)
        self._late = self._open.late
        self._tails = Tails(tail_bytes_max)
        self._began_anew = began_anew
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._given_out: dict[tuple[str, int], QueueOffset] = {}
        self._not_flushed: dict[ConsumeQueue, None] = {}  # in order: a simulation must run the same way twice
        self._late_tails: list[ConsumeQueue] = []
        """Queues whose tails will be written when a worker has opened their files."""
        self._leaving: OrderedDict[ConsumeQueue, int] | None = None
        """Queue -> queue offset up to which it must be in files before a thorough round; None between the rounds."""

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, *, last_exit_ok: bool = True, before_cut: Callable[[], object] = bool) -> list[ConsumeQueue]:
        """Find all queues on disk and the end of each. Raises StoreError for files that do not fit together.

        Returns those that lost entries in the middle; `before_cut` is called before the rest of such a one is cut off.
        """
        torn: list[ConsumeQueue] = []
        damages: list[StoreError] = []

        def damaged(error: StoreError) -> None:
            if last_exit_ok:  # else a crash came before their syncs
                self._check_setting(error)
                before_cut()
                damages.append(error)
                _log.error("%s: %s; this file and those behind it are made again", error.path, error.what)

        for topic, queue_id, folder in queue_folders(self.folder, self._disk):
            mapped = self._file_list(folder)
            mapped.load(
                lambda path: self._open.existing(path, self.file_size, is_safe=last_exit_ok),
                safe_end=None if last_exit_ok else 0,
                before_cut=damaged,
            )
            queue = self._queue(topic, queue_id, mapped)
            if queue.recover(all_flushed=last_exit_ok, before_cut=before_cut) or damages:
                torn.append(queue)
                damages.clear()
            self._topics.setdefault(topic, {})[queue_id] = queue
            if not queue.is_flushed:
                self._not_flushed[queue] = self._tails.written[queue] = None
        return torn

    def _check_setting(self, error: StoreError) -> None:
        """Raise this error of a file, unless the files of other lengths show that the setting is right."""
        for _topic, _queue_id, folder in queue_folders(self.folder, self._disk):
            if any(self._disk.size(folder / name) == self.file_size for name in self._disk.list_dir(folder)):
                return
        raise StoreError(
            error.what,
            path=error.path,
            hint="start with the mappedFileSizeConsumeQueue the store was made with; if that is"
            f" {self.file_size}, remove the file: its entries are built again from the log",
        )

    def _file_list(self, folder: Path) -> QueueFiles:
        return MappedFileList(folder, self.file_size, self._disk, lambda path: self._open.make(path, self.file_size))

    def _queue(self, topic: str, queue_id: int, mapped: QueueFiles) -> ConsumeQueue:
        return ConsumeQueue(topic, queue_id, mapped, self._tails, self._began_anew, self._late)

    # -- queues --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None if nothing was ever assigned or found for it."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def find_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory if there is none. Raises BadQueueName."""
        queues = self._topics.get(topic)
        queue = None if queues is None else queues.get(queue_id)
        if queue is not None:
            return queue
        # Names are checked where they come in; a record in a strange log must not lead out of the folder either.
        if topic in _NOT_A_FOLDER or "/" in topic or "\0" in topic or len(topic.encode()) > _NAME_BYTES_MAX:
            raise BadQueueName(f"no queue can have the topic {topic!r}", path=str(self.folder))
        mapped = self._file_list(self.folder / topic / str(queue_id))
        queue = self._queue(topic, queue_id, mapped)
        queue.given_out = self._given_out.get((topic, queue_id), _FIRST)
        self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    def has(self, queue: ConsumeQueue) -> bool:
        """True while the queue is one of these; False once its topic was deleted."""
        return self.find(queue.topic, queue.queue_id) is queue

    def topics(self) -> list[str]:
        """Topics that have a queue."""
        return list(self._topics)

    def queue_ids(self, topic: str) -> list[int]:
        """Queue ids of a topic, in order."""
        return sorted(self._topics.get(topic, ()))

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """First queue offset that can be read; 0 for an unknown queue."""
        queue = self.find(topic, queue_id)
        return _FIRST if queue is None else queue.min_offset(self.min_physical)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Queue offset behind the last message that can be read; 0 for an unknown queue."""
        queue = self.find(topic, queue_id)
        return _FIRST if queue is None else queue.max_offset

    # -- appending -----------------------------------------------------------------------------------------------------

    def assign(self, topic: str, queue_id: int, count: int = 1) -> QueueOffset:
        """Take the next `count` queue offsets, for records about to be appended; returns the first."""
        queue = self.find_or_make(topic, queue_id)
        first = queue.next_offset
        queue.next_offset = first + count
        return first

    def give_back(self, topic: str, queue_id: int, count: int = 1) -> None:
        """Undo the last `assign` of this queue: nothing was appended."""
        self.find_or_make(topic, queue_id).next_offset -= count

    def append(
        self, topic: str, queue_id: int, offset: QueueOffset, physical_offset: PhysicalOffset, size: int, tag_code: int
    ) -> bool:
        """Append the entry of a record; False when it is there already. Raises OSError or StoreError."""
        self._make_room()
        queue = self.find_or_make(topic, queue_id)
        appended = queue.append(offset, physical_offset, size, tag_code)
        if appended:
            self._not_flushed[queue] = None
        return appended

    def append_run(
        self, queue: ConsumeQueue, offset: QueueOffset, entries: bytes, end_physical: PhysicalOffset
    ) -> None:
        """Append the packed entries of new records of one queue, from queue offset `offset` on.

        `end_physical` is the end of the last record. Raises OSError or StoreError; then the run may be given again.
        """
        if self._tails.is_over:
            self._make_room()
        if not queue.tail:  # one that has a tail is there already
            self._not_flushed[queue] = None
        queue.append_run(offset, entries, end_physical)

    def _make_room(self) -> None:
        """Write the oldest tails until the rest is no more than memory may hold. Raises OSError, StoreError.

        A tail whose file a worker makes or opens stays in memory for a while.
        """
        tails = self._tails
        has_asked = bool(self._late_tails)
        while tails.is_over:
            try:
                if not self._late_tails:
                    next(iter(tails.queues)).write_tail()
                    continue
            except FileLate:
                if not has_asked:
                    has_asked = True
                    self._ask_for_files(list(islice(tails.queues, _LATE_TAILS)))
                    continue
            if tails.held > _LATE_TIMES * tails.bytes_max:
                raise FileLate("the files of many queues are being opened", path=str(self.folder))
            return

    def _ask_for_files(self, queues: list[QueueTail]) -> None:
        """Have a worker open the files of these queues, then write their tails. Raises OSError, StoreError."""
        paths: list[Path] = []
        try:
            with self._late.together():
                for queue in queues:
                    try:
                        queue.write_tail()
                    except FileLate as late:
                        paths.append(Path(late.path))
                        self._late_tails.append(cast(ConsumeQueue, queue))
        finally:  # also if the disk refused one of them: the others must not wait for ever
            self._late.when_ready(paths, self._write_late_tails)

    def _write_late_tails(self) -> None:
        queues, self._late_tails = self._late_tails, []
        for queue in queues:
            with contextlib.suppress(OSError, StoreError):  # the next round tries again, and says why
                queue.write_tail()

    def write_tails(self) -> bool:
        """Write some of the tails that were there at the first call. True: all are in files; False: call again soon.

        Raises FileLate while a worker makes or opens files of tails that are left, NotSynced if one waits for a sync;
        then no tail could be written. Raises OSError, StoreError.
        """
        if self._leaving is None:
            self._leaving = OrderedDict((queue, queue.max_offset) for queue in self._not_flushed)
        held = self._tails.held
        count = len(self._leaving)
        late: FileLate | None = None
        with self._late.together():
            for queue, end in list(islice(self._leaving.items(), _LEAVING_TAILS)):
                try:
                    queue.write_tail()
                except FileLate as error:
                    if queue.file_end < end:
                        late = error if late is None or isinstance(error, NotSynced) else late
                        continue
                del self._leaving[queue]
        if not self._leaving:
            self._leaving = None
            return True
        if late is not None and held == self._tails.held and count == len(self._leaving):
            raise late
        return False

    # -- flushing ------------------------------------------------------------------------------------------------------

    def to_flush(self, least_pages: int = 0) -> Iterator[FlushJob[EntryPosition] | None]:
        """Look at queues that were appended to since their last sync: the sync that is due now, None if none is.

        With `least_pages` 0 all of them, and the tail is written first. Else only those whose files got entries since
        a look found nothing due: no other can have become due, so queues with a few entries each cost a round nothing.
        Raises OSError, StoreError. While the store serves, tails that began after `write_tails` stay in memory: to
        write one may need a file that is closed.
        """
        written = cast(dict[ConsumeQueue, None], self._tails.written)
        for queue in list(written if least_pages else self._not_flushed):
            if least_pages == 0 and not self._late.is_serving:
                queue.write_tail()
            job = queue.to_flush(least_pages)
            if job is None:
                written.pop(queue, None)
                if queue.is_flushed:
                    self._not_flushed.pop(queue, None)
            yield job

    def write_each(self) -> Iterator[int]:
        """Carry all tails into files, one queue a step; says how many are left. Raises OSError, StoreError."""
        queues = list(self._not_flushed)
        for done, queue in enumerate(queues, 1):
            queue.write_tail()
            yield len(queues) - done

    def were_synced(self) -> None:
        """The disk has synced all files, and nothing was written meanwhile."""
        for queue in list(self._not_flushed):
            if (job := queue.to_flush(0)) is not None:
                job.done()
            if queue.is_flushed:
                del self._not_flushed[queue]

    def flush(self) -> None:
        """Sync everything on this thread. Raises StoreError."""
        for _queues_left in self.flush_each():
            pass

    def flush_each(self) -> Iterator[int]:
        """`flush`, one queue a step; says how many are left."""
        while self._not_flushed:
            queue = next(reversed(self._not_flushed))
            queue.flush()
            self._not_flushed.pop(queue, None)
            yield len(self._not_flushed)

    # -- mending -------------------------------------------------------------------------------------------------------

    def clear(self, queue: ConsumeQueue) -> None:
        """Forget all entries of a queue: it is built again. Raises OSError."""
        self._not_flushed.pop(queue, None)
        queue.clear()

    def were_given_out(self, ends: Mapping[tuple[str, int], QueueOffset]) -> None:
        """Before entries are put in anew: the offsets below these ends were given out once; see `given_out` of a queue.

        A call replaces what the one before said of queues that are not made yet.
        """
        self._given_out = dict(ends)
        for (topic, queue_id), end in ends.items():
            queue = self.find(topic, queue_id)
            if queue is not None:
                queue.given_out = end

    def given_out(self, topic: str, queue_id: int) -> QueueOffset:
        """See `given_out` of a queue; it need not be there yet."""
        queue = self.find(topic, queue_id)
        return self._given_out.get((topic, queue_id), _FIRST) if queue is None else queue.given_out

    def reach(self, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Make a queue go on at `offset` at least. Raises OSError, StoreError."""
        queue = self.find_or_make(topic, queue_id)
        if queue.reach(offset):
            self._not_flushed[queue] = None

    # -- cutting and dropping ------------------------------------------------------------------------------------------

    def max_physical_offset(self) -> PhysicalOffset:
        """End of the last record that has an entry, -1 when there is none."""
        return max((queue.max_physical_offset for queue in self), default=PhysicalOffset(-1))

    def truncate_after(self, physical_offset: PhysicalOffset, *, safe: bool = True) -> list[FlushJob[EntryPosition]]:
        """Forget entries of records at or behind `physical_offset`; next offsets follow.

        With `safe` False it is on disk only when the jobs that are given back are done.
        """
        jobs: list[FlushJob[EntryPosition]] = []
        for queue in self:
            if queue.max_physical_offset > physical_offset or queue.next_offset > queue.max_offset:
                job = queue.truncate_after(physical_offset, safe=safe)
                if job is not None and not safe:
                    jobs.append(job)
        return jobs

    def delete_before(self, min_physical: PhysicalOffset) -> Iterator[MappedFile[EntryPosition]]:
        """The commit log starts at `min_physical` now: gives the files to remove, on a worker if you like.

        Min offsets are worked out when they are asked for, so this stays cheap with many queues. A queue that cannot be
        read keeps its files, and the error is raised at the end (OSError, StoreError, NotInMemory): ask again for the
        same position.
        """
        self.min_physical = min_physical
        problem: Exception | None = None
        cold: list[ColdPart] = []
        for queue in self:
            if len(queue.files) > 1:
                try:
                    dropped = queue.drop_before(min_physical)
                except NotInMemory as needed:
                    cold += needed.parts
                except (OSError, StoreError) as error:
                    problem = error
                else:
                    yield from dropped
        if problem is not None:
            raise problem
        if cold:
            raise NotInMemory(cold)

    def forget_topic(self, name: str) -> bool:
        """Forget all queues of a topic, whose folder is another's to take away; False if there are none."""
        queues = self._topics.pop(name, None)
        for queue in (queues or {}).values():
            self._not_flushed.pop(queue, None)
            if self._leaving is not None:
                self._leaving.pop(queue, None)
            queue.abandon()
        return queues is not None

    def before_make(self, call: Callable[[Path], object]) -> None:
        """Have `call` called with the path of each new file, on the thread that makes it, before it is made."""
        self._open.before_make = call

    def outdated_topics(self, deletions: Deletions) -> list[str]:
        """Topics that were noted as deleted while their queues stayed: all their records are dead."""
        return [
            topic
            for topic, end in deletions.topics.items()
            if topic in self._topics and all(queue.max_physical_offset <= end for queue in self._topics[topic].values())
        ]

    def sync_names(self) -> None:
        """What became of the topics' folders survives a power cut now. Blocking. Raises OSError."""
        if self._disk.exists(self.folder):
            self._disk.sync_dir(self.folder)

    def destroy_all(self) -> None:
        """Remove every queue, for good: there is no commit log to point into. Raises OSError."""
        for queue in self:
            queue.destroy()
            self._not_flushed.pop(queue, None)
            folder = self.folder / queue.topic / str(queue.queue_id)
            if self._disk.exists(folder):
                self._disk.sync_dir(folder)  # a power cut must not bring old entries back beside a new log
                self._remove_folder(folder)
        for topic in self._topics:
            self._remove_folder(self.folder / topic)
        self._topics.clear()

    def _remove_folder(self, folder: Path) -> None:
        if self._disk.exists(folder):
            try:
                self._disk.remove(folder)
            except OSError as error:  # a stranger's file in it: an empty queue folder does no harm
                _log.warning("the folder %s of a queue without messages stays: %s", folder, error)

    def close(self) -> None:
        """Close all files."""
        for queue in self:
            queue.close()
