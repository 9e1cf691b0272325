"""How far a replay came: a small file that makes running it again quick.

Owns        the file's form, one process per replay.
Must not know   how it is found out whether a message was replayed: the target topic itself says so (copy_topic.py).

If the file is lost, nothing is replayed twice; the target topic is looked through from its beginning instead.
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

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.files import PosixFiles
from rocketlake.base.saved_json import load_text, save_text
from rocketlake.model.message_queue import MessageQueue

__all__ = ["QueueRecord", "ReplayRecord", "default_folder", "only_process"]


@dataclass
class QueueRecord:
    """One source queue: [next, end) is left; what of it is in the target lies there at `seen` or later."""

    next: int
    end: int
    seen: int


@dataclass
class ReplayRecord:
    """The record of one replay in its file."""

    path: Path
    queues: dict[MessageQueue, QueueRecord] = field(default_factory=dict)
    copied: int = 0
    is_done: bool = False

    @classmethod
    def load(cls, path: Path) -> ReplayRecord:
        """What was saved; an empty record if nothing was."""
        text = load_text(PosixFiles(), path)
        record = cls(path)
        if text is None:
            return record
        try:
            saved = json.loads(text)
            record.copied, record.is_done = int(saved["copied"]), bool(saved["done"])
            for topic, broker, number, *places in saved["queues"]:
                record.queues[MessageQueue(topic, broker, int(number))] = QueueRecord(*map(int, places))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                "the record of this replay cannot be read",
                path=str(path),
                hint="remove it: the replay looks at its target",
            ) from error
        return record

    def save(self) -> None:
        """Durable on return."""
        queues: list[list[Any]] = [
            [queue.topic, queue.broker_name, queue.queue_id, each.next, each.end, each.seen]
            for queue, each in sorted(self.queues.items())
        ]
        save_text(
            PosixFiles(),
            self.path,
            json.dumps({"copied": self.copied, "done": self.is_done, "queues": queues}, indent=1),
        )


def default_folder() -> Path:
    """Where records lie unless said otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "rocketlake" / "replay"


@contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Two processes that run one replay at once would both find that a message is not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "this replay is running already", where=str(path), hint="wait until it has ended"
            ) from None
        yield
