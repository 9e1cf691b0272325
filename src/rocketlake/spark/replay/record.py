"""The record of a replay: a small file that makes the next run quick.

Owns        the file's form, one process per replay.
Must not know   how a run tells copied messages: by the target topic (copy_topic.py).

If the file is lost, no message is copied twice: the run searches the target topic from its start.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.model.message_queue import MessageQueue

__all__ = ["RANGE_UNKNOWN", "QueueRecord", "ReplayRecord", "default_folder", "only_process"]


RANGE_UNKNOWN = -1
"""End of a queue that is known only by its copies in the target: its broker was away when it was planned."""


@dataclass
class QueueRecord:
    """One source queue: messages of [next, end) stored before `until_ms` are left (-1: all of them).

    Copies that a run made and could not note lie in queue `target`, at `seen` or later.
    """

    next: int
    end: int
    until_ms: int
    seen: int
    target: MessageQueue

    @property
    def is_done(self) -> bool:
        """True when no message is left."""
        return self.end != RANGE_UNKNOWN and self.next >= self.end

    @property
    def left(self) -> int:
        """Number of messages still to be read."""
        return max(0, self.end - self.next)


@dataclass
class ReplayRecord:
    """The record of one replay in its file."""

    path: Path
    queues: dict[MessageQueue, QueueRecord] = field(default_factory=dict)
    copied: int = 0
    begun_ms: int = -1
    """When the first run planned its queues."""

    @property
    def is_done(self) -> bool:
        """True when each queue is at its end."""
        return bool(self.queues) and all(each.is_done for each in self.queues.values())

    @classmethod
    def load(cls, path: Path) -> ReplayRecord:
        """The saved record; an empty one if none was saved."""
        text = load_text(PosixFiles(), path)
        record = cls(path)
        if text is None:
            return record
        try:
            saved = json.loads(text)
            record.copied, record.begun_ms = int(saved["copied"]), int(saved["begun"])
            for queue, numbers, target in saved["queues"]:
                start, end, until_ms, seen = map(int, numbers)
                record.queues[_queue(*queue)] = QueueRecord(start, end, until_ms, seen, _queue(*target))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                "the record of this replay cannot be read",
                path=str(path),
                hint="remove it: the replay looks at its target",
            ) from error
        return record

    def save(self) -> None:
        """Save the record; durable on return."""
        queues: list[list[Any]] = [
            [_places(queue), [each.next, each.end, each.until_ms, each.seen], _places(each.target)]
            for queue, each in sorted(self.queues.items(), key=lambda item: item[0])
        ]
        save_text(
            PosixFiles(),
            self.path,
            json.dumps({"copied": self.copied, "begun": self.begun_ms, "queues": queues}, indent=1),
        )


def _places(queue: MessageQueue) -> list[Any]:
    return [queue.topic, queue.broker_name, queue.queue_id]


def _queue(topic: str, broker: str, number: int) -> MessageQueue:
    return MessageQueue(topic, broker, int(number))


def default_folder() -> Path:
    """The folder of records unless the user names another."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "rocketlake" / "replay"


@contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Refuse a second process: both would find that a message has no copy yet, and copy it twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "this replay is running already", where=str(path), hint="wait until it has ended"
            ) from None
        yield
