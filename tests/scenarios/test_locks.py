"""Dialogues with the queue locks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.model.message_queue import MessageQueue

FILES = sorted((Path(__file__).parent / "locks").glob("*.txt"))


class LockWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.locks = QueueLocks(self.clock)

    def do(self, verb: str, words: list[str], options: dict[str, str]) -> list[str]:
        return getattr(self, verb)(*words, **options) or []

    def lock(self, group: str, client: str, queues: str) -> list[str]:
        held = sorted(queue.queue_id for queue in self.locks.lock(group, client, _queues(queues)))
        return ["held " + (" ".join(map(str, held)) or "none")]

    def unlock(self, group: str, client: str, queues: str) -> None:
        self.locks.unlock(group, client, _queues(queues))

    def holder(self, group: str, queue: str) -> list[str]:
        return [f"holder {self.locks.holder(group, _queues(queue)[0]) or 'nobody'}"]

    def ordered(self, group: str) -> list[str]:
        return ["ordered " + ("yes" if self.locks.any_held(group) else "no")]

    def tick(self, ms: str) -> None:
        self.clock.advance(int(ms))

    def sweep(self) -> None:
        self.locks.expire()


def _queues(text: str) -> list[MessageQueue]:
    return [MessageQueue("T", "b", int(queue_id)) for queue_id in text.split(",")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_locks(path: Path, play: Callable[[Path, Any], None]) -> None:
    play(path, LockWorld())
