"""How far each producer came: topic and producer -> its batch, and the next sequence number in each queue.

Owns        the table, which messages of a batch are replays, what is forgotten when, producerSequences.json.
Must not know   the network, bytes of messages, how the log is read again (rebuild.py).

Invariant: the table agrees with the log. Every message with a mark that lies in the log before `log_offset` is counted,
and no other: the file is only ever written as of a place that is on disk, and what lies behind it is read from the log.

A batch is known when it belongs to an earlier batch id, or its numbers were reached. A number beyond the next one is
refused: messages before it are missing, and taking it would have them taken for replays when they come.

Bytes: docs/internals/store_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.files import Files
from rocketlake.base.json_text import to_text
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.producer_sequences.mark import SequenceMark
from rocketlake.broker.saved_table import SavedTable
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LogEnds", "ProducerSequences"]

_log = get_logger(__name__)

_SAVE_EVERY_BYTES = 64 << 20
"""The file is brought up to date at least so often, so that a start after a crash reads no more of the log."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where the commit log ends now: `written` counts bytes that are in memory only, `flushed` is on disk."""

    written: int
    flushed: int


@dataclass(slots=True)
class _Progress:
    """One producer in one topic. `queues`: queue id -> next sequence number of this batch."""

    batch: int
    layout: str
    last_ms: int
    queues: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The text of the file as of a place in the log."""

    log_offset: int
    version: int
    text: str


class ProducerSequences(SavedTable):
    """Sequence numbers by topic, producer and queue."""

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
        """`producers_max`: those unused for longest go; `keep_ms`: and those unused so long."""
        super().__init__(path, files, clock)
        self.log_offset: int | None = None
        """What the loaded file counts up to; None: there was no file."""
        self.is_kept = False
        """Is there a file? Without one no mark is looked for in the log, so it must be there before the first mark."""
        self._log_ends = log_ends
        self._producers_max = producers_max
        self._keep_ms = keep_ms
        self._table: dict[tuple[str, str], _Progress] = {}  # those used last are last
        self._version = 0
        self._candidate: _Snapshot | None = None
        self._safe: _Snapshot | None = None
        self._is_wanted = False
        self._warnings = RareWarnings(_log, clock=clock)

    def __len__(self) -> int:
        return len(self._table)

    # -- the check -----------------------------------------------------------------------------------------------------

    def known(self, topic: str, queue_id: int, mark: SequenceMark, count: int) -> int:
        """How many of the `count` messages of this batch, from its first on, were stored before.

        RemoteError if it may be neither taken nor dropped.
        """
        progress = self._table.get((topic, mark.producer))
        expected = 0
        if progress is not None:
            if progress.batch > mark.batch:
                return count
            if progress.batch == mark.batch:
                if progress.layout != mark.layout:
                    raise _refusal(
                        f"batch {mark.batch} of producer {mark.producer} spreads its rows over the queues of {topic} in"
                        " another way than when it was sent first, so replays cannot be told from new rows",
                        "give the topic the queues (and the sink the options) it had then until this batch is through",
                    )
                expected = progress.queues.get(queue_id, 0)
        if mark.sequence > expected:
            raise _refusal(
                f"producer {mark.producer} sends number {mark.sequence} of batch {mark.batch} to queue {queue_id} of"
                f" {topic}, but {expected} is next",
                "messages before it are missing here; send the batch again from its beginning",
            )
        return min(expected - mark.sequence, count)

    def advance(self, topic: str, queue_id: int, mark: SequenceMark, count: int) -> None:
        """The `count` messages of a batch with this mark were stored."""
        self.recover(topic, queue_id, mark, mark.sequence + count, self._clock.now_ms())
        self._drop_old()

    def recover(self, topic: str, queue_id: int, mark: SequenceMark, next_sequence: int, stored_ms: int) -> None:
        """The log has all messages of the mark's batch below this number."""
        key = topic, mark.producer
        progress = self._table.pop(key, None)
        if progress is None or progress.batch < mark.batch:
            progress = _Progress(mark.batch, mark.layout, stored_ms)
        self._table[key] = progress
        if progress.batch == mark.batch:
            progress.queues[queue_id] = max(next_sequence, progress.queues.get(queue_id, 0))
            progress.last_ms = max(progress.last_ms, stored_ms)
        self._version += 1

    def _drop_old(self) -> None:
        oldest_ms = self._clock.now_ms() - self._keep_ms
        while self._table:
            key = next(iter(self._table))
            is_expired = self._table[key].last_ms < oldest_ms
            if not is_expired and len(self._table) <= self._producers_max:
                return
            if not is_expired:
                self._warnings.warn(
                    "full",
                    "more than %d producers with sequence numbers: %s in %s is forgotten, what it sends again is stored"
                    " again; producerSequencesMax sets how many are kept",
                    self._producers_max,
                    key[1],
                    key[0],
                )
            del self._table[key]
            self._version += 1

    def forget_all(self) -> None:
        """Start empty: the table knows more than the log holds."""
        self._table.clear()
        self._version += 1

    # -- the file ------------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The table agrees with the log now, which is on disk."""
        self.is_kept = self.log_offset is not None
        if self.is_kept:
            self.to_text()
            self._is_wanted = True

    def begin(self) -> None:
        """A first mark is to come: from now on there is something to save, at first that there was none so far."""
        ends = self._log_ends()
        self._safe = _Snapshot(ends.flushed, self._version, self._text(ends.flushed))
        self._is_wanted = True

    def save(self) -> None:
        """Write the file now, as of the end of the log. OSError if the disk refuses."""
        if self._safe is not None and self._safe.log_offset < self._log_ends().written:
            self._is_wanted = True
        super().save()

    @property
    def changed(self) -> bool:
        """Is there something to save, now or when the log has been flushed?"""
        safe = self._safe
        if self._is_wanted or safe is None:
            return self._is_wanted
        return safe.version != self._version or self._log_ends().written - safe.log_offset >= _SAVE_EVERY_BYTES

    @changed.setter
    def changed(self, changed: bool) -> None:
        self._is_wanted = changed

    def to_text(self) -> str:
        """The newest text whose place in the log is on disk: while messages come, that of the call before."""
        ends = self._log_ends()
        snapshots = (self._candidate, _Snapshot(ends.written, self._version, self._text(ends.written)))
        self._candidate = snapshots[-1]
        for snapshot in snapshots:
            if snapshot is not None and (snapshot.log_offset <= ends.flushed or self._safe is None):
                self._safe = snapshot
        assert self._safe is not None
        return self._safe.text

    def _text(self, log_offset: int) -> str:
        producers = [
            {
                "topic": topic,
                "producer": producer,
                "batch": progress.batch,
                "layout": progress.layout,
                "lastMs": progress.last_ms,
                "queues": {str(queue_id): number for queue_id, number in progress.queues.items()},
            }
            for (topic, producer), progress in self._table.items()
        ]
        return to_text(
            {"dataVersion": self._version_on_wire(), "logOffset": log_offset, "producers": producers}
        ).decode()

    def _take(self, wire: dict[str, Any]) -> None:
        self.log_offset = int(wire["logOffset"])
        for each in wire["producers"]:
            queues = {int(queue_id): int(number) for queue_id, number in each["queues"].items()}
            progress = _Progress(int(each["batch"]), str(each["layout"]), int(each["lastMs"]), queues)
            self._table[str(each["topic"]), str(each["producer"])] = progress


def _refusal(what: str, hint: str) -> RemoteError:
    return RemoteError(what, code=ResponseCode.MESSAGE_ILLEGAL, hint=hint)
