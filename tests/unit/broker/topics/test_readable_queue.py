"""Where a message that waited goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.topic import TopicConfig


@pytest.mark.parametrize(
    ("read", "write", "asked", "found"),
    [
        (4, 4, 3, 3),
        (4, 2, 3, 3),  # consumers still read a queue that is emptied
        (2, 2, 3, 1),
        (2, 4, 3, 1),
        (4, 2, 5, 1),
        (0, 0, 3, 3),  # nobody reads: it stays what it is
    ],
)
def test_a_queue_that_consumers_read_is_kept_and_another_one_is_replaced(
    read: int, write: int, asked: int, found: int
) -> None:
    topics = TopicTable(Path("topics.json"), MemoryFiles(), ManualClock(), [], topics_max=10, queues_max=100)
    topics.put(TopicConfig("T", read_queues=read, write_queues=write))
    queue = ReadableQueue(topics, ManualClock())
    assert queue("T", asked) == found
    assert queue("nowhere", asked) == asked
    assert queue.moved == (asked != found)
