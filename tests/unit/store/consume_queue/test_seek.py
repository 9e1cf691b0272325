from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.seek import offset_by_time, store_ms_at
from rocketlake.store.mapped_file_list import MappedFileList

TIMES = [100, 200, 200, 200, 300, 300, 500, 700, 700, 700, 700, 900]


@pytest.fixture
def queue() -> ConsumeQueue:
    """Entry n: record at n * 10, stored at TIMES[n]; four entries a file."""
    queue = ConsumeQueue("T", 0, MappedFileList(Path("/q/T/0"), 80, MemoryFiles()))
    for number in range(len(TIMES)):
        queue.append(number, number * 10, 10, 0)
    return queue


def store_time(physical: int) -> int:
    return TIMES[physical // 10]


@pytest.mark.parametrize(
    ("ms", "lower", "upper"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (150, 1, 0),
        (200, 1, 3),
        (250, 4, 3),
        (300, 4, 5),
        (400, 6, 5),
        (700, 7, 10),
        (800, 11, 10),
        (900, 11, 11),
        (901, 12, 11),
    ],
)
def test_lower_is_the_first_at_or_after_upper_the_last_at_or_before(
    queue: ConsumeQueue, ms: int, lower: int, upper: int
) -> None:
    assert offset_by_time(queue, ms, store_time, min_physical=0) == lower
    assert offset_by_time(queue, ms, store_time, min_physical=0, upper=True) == upper


def test_the_answer_never_lies_below_the_min_offset(queue: ConsumeQueue) -> None:
    assert offset_by_time(queue, 0, store_time, min_physical=45) == 5
    assert offset_by_time(queue, 0, store_time, min_physical=45, upper=True) == 5


def test_an_empty_queue_gives_its_max_offset(queue: ConsumeQueue) -> None:
    assert offset_by_time(queue, 0, store_time, min_physical=10_000) == 12
    empty = ConsumeQueue("T", 0, MappedFileList(Path("/q/T/1"), 80, MemoryFiles()))
    assert offset_by_time(empty, 500, store_time, min_physical=0) == 0


def test_a_record_that_cannot_be_read_counts_as_older(queue: ConsumeQueue) -> None:
    def partly(physical: int) -> int:
        return -1 if physical < 50 else store_time(physical)

    assert offset_by_time(queue, 0, partly, min_physical=0) == 5


def test_the_store_time_of_an_offset(queue: ConsumeQueue) -> None:
    assert store_ms_at(queue, 6, store_time) == 500
    assert store_ms_at(queue, 12, store_time) == -1
    assert store_ms_at(queue, -1, store_time) == -1
