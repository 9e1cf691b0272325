"""The offsets in a Spark checkpoint, shown and set by hand: the repair after a loss of messages.

Owns        reading and replacing the source's line in the offset log of a stopped query.
Must not know   brokers, Spark itself (the files are text).

Layout (HDFSMetadataLog): offsets/N holds where micro-batch N ends: a version, a line of metadata, a line for each
source. commits/N is there when the batch is done. The next batch begins where the last one that is done ended; the
batch after it may be planned already, and keeps its number: sinks tell batches by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.incarnations import Marks, marks_in, with_marks
from rocketlake.spark.source.offsets import Offsets, describe, describe_all, from_nested, to_nested

__all__ = ["Checkpoint"]

_VERSION = "v1"
_BACKUP = "rocketlake-backup"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of the offset log; `line` is the source's."""

    path: Path
    lines: list[str]
    line: int

    @property
    def offsets(self) -> Offsets:
        return from_nested(json.loads(self.lines[self.line]))

    def marks_without(self, queue: MessageQueue) -> dict[MessageQueue, Marks]:
        """The marks of all queues but this one."""
        marks = marks_in(json.loads(self.lines[self.line]))
        return {each: mark for each, mark in marks.items() if each != queue}


class Checkpoint:
    """The checkpoint of a query that is stopped."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        done, planned = self._numbers("commits"), self._numbers("offsets")
        if not done or done[-1] not in planned:
            raise UsageError(
                f"{folder} is not the checkpoint of a query that has finished a micro-batch",
                hint="give the folder of checkpointLocation, which holds 'offsets' and 'commits'; a query without a "
                "finished batch starts by its options",
            )
        self.batch = done[-1]
        self._planned = planned[-1] if planned[-1] > self.batch else None

    def _numbers(self, name: str) -> list[int]:
        return sorted(int(each) for each in self._files.list_dir(self._folder / name) if each.isdigit())

    def next_offsets(self, topic: str = "") -> Offsets:
        """The offsets at which the next micro-batch begins, in the source that reads this topic."""
        return self._entry(self.batch, topic).offsets

    def set(self, queue: MessageQueue, offset: int) -> int:
        """Have the next micro-batch begin there in this queue; returns the offset that was there.

        UsageError when no source of the query reads this queue.
        """
        entry = self._entry(self.batch, queue.topic)
        offsets = entry.offsets
        if queue not in offsets:
            raise UsageError(
                f"the query does not read {describe(queue)}",
                hint=f"name one that it reads: {describe_all(offsets.keys())}",
            )
        before = offsets[queue]
        if self._planned is not None:
            planned = self._entry(self._planned, queue.topic)
            end = planned.offsets.get(queue, offset)
            # A planned batch is read again: it must not end before it begins, nor read offsets of before the change.
            new_end = offset if offset < before else max(end, offset)
            self._write(planned, planned.offsets | {queue: new_end}, planned.marks_without(queue))
        # Without a mark the queue is accepted as it is now; it may have been made anew.
        self._write(entry, offsets | {queue: offset}, entry.marks_without(queue))
        return before

    def _entry(self, number: int, topic: str) -> _Entry:
        path = self._folder / "offsets" / str(number)
        lines = self._files.read_bytes(path).decode().split("\n")
        if lines[0] != _VERSION:
            raise UsageError(
                f"{path} has version {lines[0][:20]!r}", hint=f"edit the file by hand: this command knows {_VERSION}"
            )
        for index in range(2, len(lines)):
            try:
                offsets = from_nested(json.loads(lines[index]))
            except (ValueError, AttributeError, UsageError):
                continue
            if not topic or any(queue.topic == topic for queue in offsets):
                return _Entry(path, lines, index)
        raise UsageError(
            f"no source of this query reads topic {topic}" if topic else f'{path} has no source format("rocketmq")',
            hint="give the checkpoint folder of the query that reads the topic",
        )

    def _write(self, entry: _Entry, offsets: Offsets, marks: Mapping[MessageQueue, Marks]) -> None:
        files, path = self._files, entry.path
        backup = self._folder / _BACKUP
        files.make_dirs(backup)
        files.write_bytes(backup / f"offsets-{path.name}-{SystemClock().now_ms()}", "\n".join(entry.lines).encode())
        lines = list(entry.lines)
        lines[entry.line] = json.dumps(with_marks(to_nested(offsets), marks), separators=(",", ":"))
        fresh = backup / f"new-{path.name}"
        files.write_bytes(fresh, "\n".join(lines).encode())
        # Hadoop keeps a checksum beside the file; without one it reads the file as it is.
        checksum = path.with_name(f".{path.name}.crc")
        if files.exists(checksum):
            files.remove(checksum)
        files.rename(fresh, path)
        files.sync_dir(path.parent)
