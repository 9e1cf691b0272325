"""A topic is deleted: its queues go at once, its records are dead from then on, and a crash brings nothing back.

Owns        the order of these steps, which of them run on a worker, which are tried again.
Must not know   topic settings, group offsets, why a topic is deleted.

Order: the queues are forgotten and the deletion is noted in memory, in one turn of the loop, so the next message finds
a topic without queues. The worker that makes queue files renames their folder out of the way: so no file of a topic
made anew is made before. Then another worker makes the note safe; only then the deletion is answered. A third one
deletes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import Worker
from rocketlake.model.positions import EntryPosition, PhysicalOffset
from rocketlake.store.consume_queue.ends import QueueEnds, QueueKey
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.mapped_file import MappedFile
from rocketlake.store.removal import Removal, Removed

__all__ = ["Noted", "TopicDeletion", "unasked"]

_log = get_logger(__name__)

Noted = Callable[[Exception | None], object]
"""Called on the loop when a deletion survives a crash, or with the reason why it may not."""


class TopicDeletion:
    """Deletes topics of one store."""

    def __init__(
        self,
        table: ConsumeQueueTable,
        ends: QueueEnds,
        deletions: Deletions,
        removal: Removal,
        *,
        makes: Worker,
        notes: Worker,
        files: Worker,
    ) -> None:
        """`makes` makes queue files, `notes` makes notes safe, `files` deletes, which may take long."""
        self._table = table
        self._ends = ends
        self._deletions = deletions
        self._removal = removal
        self._leaving: dict[Path, None] = {}
        """Folders of deleted topics that are to go out of the way. The loop adds, the worker `makes` removes."""
        self._makes = makes
        self._notes = notes
        self._files = files
        self._failed = False
        self._retries = False

    def delete(self, names: Collection[str], log_end: PhysicalOffset, noted: Noted) -> None:
        """Delete these topics; the log ends at `log_end`. They have no queues any more when this returns."""
        folders = [self._table.folder / name for name in names if self._table.forget_topic(name)]
        self._deletions.note(names, log_end)
        self._ends.forget(names)
        self._leaving.update(dict.fromkeys(folders))
        self._take_away(folders, noted)

    def _take_away(self, folders: Sequence[Path], noted: Noted) -> None:
        """Have the folders of deleted topics go out of the way, then the deletion written down."""

        def taken(removed: list[Removed] | None, error: Exception | None) -> None:
            self._remove(removed or [])
            if error is None:
                self._write(noted)
                return
            _log.error("the queues of a deleted topic cannot go, a crash may bring them back; tried again: %s", error)
            noted(
                StoreError(
                    f"the queues of a topic cannot be deleted: {error}",
                    path=str(self._table.folder),
                    hint="see that the disk can be written, then delete the topic again",
                )
            )

        self._makes.submit(lambda: self._go(folders), taken)

    def _go(self, folders: Iterable[Path]) -> list[Removed]:
        """Rename folders that are to leave. On the worker that makes files. Raises OSError; then the rest stays."""
        gone: list[Removed] = []
        for folder in folders:
            if folder in self._leaving:
                if self._removal.disk.exists(folder):
                    gone.append(self._removal.take(folder))
                del self._leaving[folder]
        return gone

    def before_make(self, path: Path) -> None:
        """A queue file is to be made at `path`: the queues of a deleted topic must not lie there any more.

        On the worker that makes files. Raises OSError. What goes now is deleted by the next start.
        """
        self._go([folder for folder in path.parents if folder in self._leaving])

    # -- start and upkeep ----------------------------------------------------------------------------------------------

    def load(self) -> dict[QueueKey, PhysicalOffset]:
        """Read the notes, and finish deletions that a crash cut short. Raises OSError.

        Gives the queues with entries that went: only their records behind this physical offset count. Such a queue
        may also be the one of the topic made again, with a damaged entry at its end.
        """
        self._deletions.load()
        gone: dict[QueueKey, PhysicalOffset] = {}
        for name in self._table.outdated_topics(self._deletions):
            _log.info("topic %s was deleted before the last start, its queues go now", name)
            end = self._deletions.topics[name]
            gone.update(
                {(name, queue.queue_id): end for queue in self._table if queue.topic == name and queue.max_offset}
            )
            self._table.forget_topic(name)
            if self._removal.disk.exists(self._table.folder / name):
                self._removal.take(self._table.folder / name)
        return gone

    def fit(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:
        """Before the first append: no note reaches behind the end that a crash has left of the log. Raises OSError."""
        self._deletions.clamp(log_end)
        self._deletions.forget_below(log_begin)
        self.save()

    def cut(self, log_end: PhysicalOffset, noted: Noted) -> None:
        """The log is cut: no note reaches behind it. `noted` is called when a crash keeps that, as with `delete`."""
        self._deletions.clamp(log_end)
        if self._deletions.changed:
            self._write(noted)
        else:
            noted(None)

    def save(self) -> None:
        """Write the notes if they changed, on this thread. Raises OSError."""
        if self._deletions.changed:
            self._deletions.write(self._deletions.encode())
            self._table.sync_names()

    def remove_left_over(self) -> None:
        """Delete the files that an earlier process left to be deleted."""
        try:
            self._remove(self._removal.left_over())
        except OSError as error:
            _log.warning("what was deleted before the last start cannot be looked at, it stays: %s", error)

    def log_was_cut(self, log_begin: Callable[[], PhysicalOffset]) -> None:
        """The log lost its oldest files: notes of records that are gone go, too.

        `log_begin` says where it begins on disk, for good; it is called on a worker. While a crash may bring old files
        back, their notes stay.
        """
        if self._deletions.until:
            self._notes.submit(log_begin, self._forget)

    def _forget(self, log_begin: PhysicalOffset | None, error: Exception | None) -> None:
        if log_begin is None:
            _log.warning("old notes of deleted topics stay until the next start: %s", error)
            return
        self._deletions.forget_below(log_begin)
        if self._deletions.changed:
            self._write(unasked)

    def retry(self) -> None:
        """Rename folders and write the notes again where that failed."""
        if self._leaving and not self._retries:
            self._retries = True
            self._take_away(list(self._leaving), self._retried)
        elif self._failed:
            self._write(unasked)

    def _retried(self, _error: Exception | None) -> None:
        self._retries = False

    # -- on workers ----------------------------------------------------------------------------------------------------

    def _write(self, noted: Noted) -> None:
        notes = self._deletions.encode()

        def write() -> None:
            self._deletions.write(notes)
            self._table.sync_names()

        def written(_result: None, error: Exception | None) -> None:
            if error is not None and not self._failed:
                _log.error(
                    "deleted topics cannot be noted, a crash may bring their messages back; tried again: %s", error
                )
            self._failed = error is not None
            noted(error)

        self._notes.submit(write, written)

    def remove_files(self, dropped: Sequence[MappedFile[EntryPosition]]) -> None:
        """Delete queue files whose entries have expired.

        They give up their names first: until they are deleted, their queue may be made anew.
        """
        if dropped:
            self._makes.submit(lambda: self._out_of_the_way(dropped), lambda gone, _error: self._remove(gone or []))

    def _out_of_the_way(self, dropped: Sequence[MappedFile[EntryPosition]]) -> list[Removed]:
        gone: list[Removed] = []
        for mapped in dropped:
            try:
                gone.append(self._removal.take(mapped.path))
            except OSError as error:
                _log.warning("cannot delete %s, it comes back with the next start: %s", mapped.path, error)
        return gone

    def _remove(self, parts: Sequence[Removed]) -> None:
        for part in parts:
            self._files.submit(part.remove, _Ended(part.path))


class _Ended:
    """Logs a deletion that failed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, _result: None, error: Exception | None) -> None:
        if error is not None:
            _log.warning("cannot delete what was at %s, the next start tries again: %s", self._path, error)


def unasked(_error: Exception | None) -> None:
    """For callers that do not wait until the deletion is noted; a failure was logged."""
