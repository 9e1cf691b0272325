"""How far each query came: topic and query -> its last batch, and the next sequence number of each task in each queue.

Beside each number stands a digest of the messages below it.

Owns        the table, which messages of a batch are replays, which batches are forgotten and when,
            producerSequences.json.
Must not know   the network, bytes of messages, how the log is read again (rebuild.py).

Invariant: the table agrees with the log. Every message with a mark that lies in the log before `log_offset` is counted,
and no other. The file counts up to a place of the log that is on disk; a start reads the log behind that place.

A message is a replay if its number lies below the next number of its task. The broker refuses a batch whose replays it
cannot tell from new rows:

- a number beyond the next one: the messages between are missing, and would count as replays when they come;
- a batch before the last one, or another layout;
- other content: a batch that reaches the next number must have the table's digest there.

A batch that ends below the next number is not compared here. The answer tells the next number, and the sink compares.

The tasks of a batch are forgotten together. The number of the batch stays known, so that the batch is refused, and not
stored again, if it is sent again (docs/decisions/0017). Ages count while the broker runs, by the monotonic clock; the
file holds how long each batch has been idle.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import RemoteError
from rocketlake.base.java.json_text import parse, to_text
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.producer_sequences.last_batches import NEVER, LastBatches, TaskProgress
from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.codec.sequence_mark import OTHER_ROWS_HINT, SequenceMark
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LogEnds", "ProducerSequences"]

_log = get_logger(__name__)

_SAVE_EVERY_BYTES = 64 << 20
"""The file is saved at least once for so many bytes of log: a start after a crash reads no more."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where the commit log ends now: `written` counts bytes that are in memory only, `flushed` is on disk."""

    written: int
    flushed: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The text of the file as of a place in the log."""

    log_offset: int
    version: int
    text: str


class ProducerSequences(SavedTable):
    """Sequence numbers by topic, query, task and queue."""

    holds = "the table of producer sequences"
    without_file = "to forget what effectively-once producers have sent (a batch that is sent again is stored again)"

    def __init__(
        self,
        path: Path,
        files: Files,
        clock: Clock,
        log_ends: Callable[[], LogEnds],
        *,
        producers_max: int,
        keep_ms: int,
    ) -> None:
        """`producers_max`: tasks that are kept, the batch unused for longest goes first; `keep_ms`: for how long."""
        super().__init__(path, files, clock)
        self.log_offset: int | None = None
        """The place of the log up to which the closed table counts; None: no mark was ever taken."""
        self.cuts = 0
        """How often the log was cut: what was read of it before may be other messages now."""
        self.has_file = False
        """True if there is a file. It must be there before the first mark: without a file a start reads no marks."""
        self._is_open = False
        """False while messages may come into the log that this table does not count: at a start, and on a slave."""
        self._log_ends = log_ends
        self._producers_max = producers_max
        self._keep_seconds = keep_ms / 1000
        self._batches = LastBatches()
        self._version = 0
        self._candidate: _Snapshot | None = None
        self._safe: _Snapshot | None = None
        self._is_wanted = False
        self._warnings = RareWarnings(_log, clock=clock)

    def __len__(self) -> int:
        """How many tasks are known."""
        return self._batches.task_count

    # -- the check -----------------------------------------------------------------------------------------------------

    def known(
        self, topic: str, queue_id: int, mark: SequenceMark, count: int, digest_at: Callable[[int], int | None]
    ) -> int:
        """How many of the `count` messages of this batch, from its first on, were stored before.

        `digest_at(n)`: the digest behind its first n messages. RemoteError if replays cannot be told from new rows.
        """
        progress = self._of_batch(topic, mark)
        expected = 0 if progress is None else progress.queues.get(queue_id, 0)
        if mark.sequence > expected:
            raise _refusal(
                f"producer {mark.producer} sends number {mark.sequence} of batch {mark.batch} to queue {queue_id} of"
                f" {topic}, but {expected} is next",
                "messages before it are missing here; send the batch again from its beginning",
            )
        stored = expected - mark.sequence
        if stored > count:
            return count
        digest = None if progress is None else progress.digests.get(queue_id)
        if digest is not None and mark.before is not None and digest_at(stored) != digest:
            raise _refusal(
                f"batch {mark.batch} of producer {mark.producer} was written before with other rows: {expected} of them"
                f" are stored in queue {queue_id} of {topic}, and the first {expected} it sends now are not the same",
                OTHER_ROWS_HINT,
            )
        return stored

    def _of_batch(self, topic: str, mark: SequenceMark) -> TaskProgress | None:
        """The progress of the mark's task in its batch; None if it is new. RemoteError if its batch is refused."""
        last = self._batches.find(topic, mark.query)
        if last is None:
            forgotten = self._batches.forgotten.get((topic, mark.query), NEVER)
            if mark.batch <= forgotten:
                raise _forgotten_batch(topic, mark, forgotten)
            return None
        if last.batch < mark.batch:
            return None
        if last.batch > mark.batch:
            raise _refusal(
                f"producer {mark.producer} sends batch {mark.batch} to {topic}, but its query has written batch"
                f" {last.batch} there: whether these rows are stored cannot be told",
                "if this is an older copy of a checkpoint, or a lower batchId under the same producerId, start with a"
                " new checkpoint or producerId, or write with 'at_least_once'; rows that were stored before are there"
                " twice then",
            )
        task = last.tasks.get(mark.producer)
        if task is None:
            if len(last.tasks) >= self._producers_max:
                raise _refusal(
                    f"batch {mark.batch} of query {mark.query} is written to {topic} by more than"
                    f" {self._producers_max} tasks",
                    "raise producerSequencesMax in broker.conf, or write with fewer partitions",
                )
            return None
        if task.layout != mark.layout:
            raise _refusal(
                f"batch {mark.batch} of producer {mark.producer} spreads its rows over the queues of {topic} in"
                " another way than when it was sent first, so replays cannot be told from new rows",
                "give the topic the queues (and the sink the options) it had then until this batch is through",
            )
        return task

    def next_number(self, topic: str, queue_id: int, mark: SequenceMark) -> int:
        """How many messages of the mark's batch are stored in this queue."""
        last = self._batches.find(topic, mark.query)
        task = None if last is None or last.batch != mark.batch else last.tasks.get(mark.producer)
        return 0 if task is None else task.queues.get(queue_id, 0)

    def advance(self, topic: str, queue_id: int, mark: SequenceMark, count: int) -> None:
        """Note that the `count` messages of a batch with this mark were stored."""
        self.recover(topic, queue_id, mark, mark.sequence + count, mark.after)
        self._forget_old()

    def recover(self, topic: str, queue_id: int, mark: SequenceMark, next_number: int, digest: int | None) -> None:
        """Note that the log has all messages of the mark's batch below this number; `digest`: theirs, if known."""
        self._batches.reach(topic, queue_id, mark, next_number, digest, self._clock.monotonic())
        self._version += 1

    # -- forgetting ----------------------------------------------------------------------------------------------------

    def _forget_old(self) -> None:
        """Forget batches that are too old or too many. The batch in use stays whole."""
        batches, tasks_max = self._batches, self._producers_max
        oldest_at = self._clock.monotonic() - self._keep_seconds
        while oldest := batches.oldest():
            (topic, query), last = oldest
            if last.used_at >= oldest_at:
                if batches.task_count <= tasks_max or len(batches) == 1:
                    break
                self._warnings.warn(
                    "full",
                    "more than %d tasks of queries with sequence numbers: batch %d of %s in %s is forgotten, and"
                    " refused if it is sent again; raise producerSequencesMax to keep more",
                    tasks_max, last.batch, query, topic,
                )  # fmt: skip
            batches.forget((topic, query))
            self._version += 1
        while len(batches.forgotten) > tasks_max:
            (topic, query), batch = batches.forgotten.popitem(last=False)
            self._warnings.warn(
                "traceless",
                "query %s in %s is forgotten, its last batch was %d: if this batch is sent again it is stored again;"
                " raise producerSequencesMax to remember more",
                query, topic, batch,
            )  # fmt: skip

    def forget_all(self) -> None:
        """Start empty: the table counts messages that the log does not hold."""
        self._batches = LastBatches()
        self._version += 1

    def log_was_cut(self, end: int) -> None:
        """The log ends at `end` now: go back to a text that counts up to there at most; `catch_up` counts the rest."""
        self.cuts += 1
        if not self._is_open and (self.log_offset is None or self.log_offset <= end):
            return  # nothing behind the end was counted
        safe, has_marks = self._safe, len(self) > 0
        self._candidate = self._safe = None
        self.forget_all()
        if not self.has_file and not has_marks:
            self.log_offset = None if self._is_open else end
            return
        self.log_offset = 0
        if safe is not None and safe.log_offset <= end:
            self._take(parse(safe.text))
        self._is_wanted = True

    def forget_topic(self, topic: str) -> None:
        """The topic is deleted with its messages: every message sent to a topic of this name is new."""
        self._version += self._batches.drop_topic(topic)

    def forget_deleted(self, ends: Mapping[str, int]) -> None:
        """The loaded file may be older than a deletion. `ends`: topic -> end of the log when the topic was deleted."""
        for topic, end in ends.items():
            if self.log_offset is not None and self.log_offset <= end:
                self.forget_topic(topic)

    # -- the file ------------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The table agrees with the log now, and will hear of each marked message."""
        self._is_open = True
        if self.log_offset is not None:
            self.to_text()
            self._is_wanted = True

    def close(self) -> None:
        """From now on the log may get marked messages that the table does not count."""
        if self._is_open:
            self._is_open = False
            self.log_offset = self._log_ends().written

    def pass_unmarked(self, end: int) -> None:
        """The log has no mark from the closed table's place on up to this one, and is on disk up to there."""
        if not self._is_open:
            self.log_offset = end
            self._is_wanted = True  # else a start would look from the place of the file on

    def follow(self) -> None:
        """Close the table: the log gets marked messages from a master now, and `catch_up` counts them later.

        The file must say from where on, and be there before the first of them: without a file a start reads no marks.
        """
        self.close()
        end = self._log_ends().written
        if self.log_offset is None:
            self.log_offset = end
        elif self.log_offset > end:
            self.forget_all()  # the log lost its end: it will grow past this place with other messages
            self.log_offset = 0
            self._candidate = self._safe = None
            self._is_wanted = True
        if not self.has_file:
            self.begin()

    @property
    def edition(self) -> int:
        """Grows with every save: slaves copy what is saved."""
        return 0 if self._safe is None else self._safe.log_offset + 1

    @property
    def safe_text(self) -> str:
        """The text that was saved last, as of a place of the log that is on disk; "" before the first one."""
        return "" if self._safe is None else self._safe.text

    def note_saved(self, saved: bool) -> None:
        """The file was saved, or could not be saved."""
        self.has_file = self.has_file or saved

    @property
    def is_kept(self) -> bool:
        """True when a marked batch may be taken."""
        return self._is_open and self.has_file

    def _counted_ends(self) -> LogEnds:
        """Where the part of the log ends that the table counts. A master's table may count more than this log has."""
        ends = self._log_ends()
        if self._is_open or self.log_offset is None:
            return ends
        return LogEnds(self.log_offset, min(ends.flushed, self.log_offset))

    def begin(self) -> None:
        """Called before the first mark: save that there was none so far. From now on the table is kept."""
        ends = self._counted_ends()
        place = ends.written if len(self) else ends.flushed
        self._safe = _Snapshot(place, self._version, self._text(place))
        self._is_wanted = True

    def save(self) -> None:
        """Write the file now, as of the end of the log. OSError if the disk refuses."""
        if self._safe is not None and self._safe.log_offset < self._counted_ends().written:
            self._is_wanted = True
        super().save()

    @property
    def changed(self) -> bool:
        """True if the table is to be saved, now or when the log has been flushed."""
        safe = self._safe
        if self._is_wanted or safe is None:
            return self._is_wanted
        return safe.version != self._version or self._counted_ends().written - safe.log_offset >= _SAVE_EVERY_BYTES

    @changed.setter
    def changed(self, changed: bool) -> None:
        self._is_wanted = changed

    def to_text(self) -> str:
        """The table as text, as of the newest place in the log that is on disk.

        While messages come, that is the text which the call before made: its place has been flushed since.
        """
        ends = self._counted_ends()
        snapshots = (self._candidate, _Snapshot(ends.written, self._version, self._text(ends.written)))
        self._candidate = snapshots[-1]
        for snapshot in snapshots:
            if snapshot is not None and (snapshot.log_offset <= ends.flushed or self._safe is None):
                self._safe = snapshot
        assert self._safe is not None
        return self._safe.text

    def _text(self, log_offset: int) -> str:
        now = self._clock.monotonic()
        producers = [
            {
                "topic": topic,
                "producer": producer,
                "batch": last.batch,
                "layout": task.layout,
                "idleMs": round((now - last.used_at) * 1000),
                "queues": {str(queue_id): number for queue_id, number in task.queues.items()},
                "digests": {str(queue_id): f"{digest:08x}" for queue_id, digest in task.digests.items()},
            }
            for (topic, _query), last in self._batches
            for producer, task in last.tasks.items()
        ]
        forgotten = [
            {"topic": topic, "query": query, "batch": batch}
            for (topic, query), batch in self._batches.forgotten.items()
        ]
        return to_text(
            {
                "dataVersion": self._version_on_wire(),
                "logOffset": log_offset,
                "producers": producers,
                "forgotten": forgotten,
            }
        ).decode()

    def _take(self, wire: dict[str, Any]) -> None:
        log_offset, batches = int(wire["logOffset"]), LastBatches()
        # Files of earlier releases have no "forgotten", no "idleMs", no "digests", and batches of a query side by side.
        for each in wire.get("forgotten", []):
            batches.forgotten[str(each["topic"]), str(each["query"])] = int(each["batch"])
        for each in wire["producers"]:
            topic, used_at = str(each["topic"]), self._clock.monotonic() - int(each.get("idleMs", 0)) / 1000
            mark = SequenceMark(str(each["producer"]), int(each["batch"]), 0, str(each["layout"]))
            digests = {int(queue_id): int(digest, 16) for queue_id, digest in each.get("digests", {}).items()}
            for text, number in each["queues"].items():
                queue_id = int(text)
                batches.reach(topic, queue_id, mark, int(number), digests.get(queue_id), used_at)
        self.log_offset, self._batches, self.has_file = log_offset, batches, True
        self._candidate = self._safe = None


def _forgotten_batch(topic: str, mark: SequenceMark, forgotten: int) -> RemoteError:
    return _refusal(
        f"producer {mark.producer} sends batch {mark.batch} to {topic}, but what its query has written there up to"
        f" batch {forgotten} was forgotten: whether these rows are stored cannot be told",
        "begin anew with a new checkpoint or producerId, or write this batch with 'at_least_once': what was stored of"
        " it is there twice then; brokers remember longer with a larger producerSequenceKeepMs, and more with a larger"
        " producerSequencesMax",
    )


def _refusal(what: str, hint: str) -> RemoteError:
    return RemoteError(what, code=ResponseCode.MESSAGE_ILLEGAL, hint=hint)
