from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.plan import QueueRange, RangesPartition, put_together, ranges_between, split

QUEUE = MessageQueue("T", "broker-a", 0)
OTHER = MessageQueue("T", "broker-a", 1)


def test_a_range_survives_the_way_to_a_spark_worker() -> None:
    wanted = QueueRange(QUEUE, 3, 9)
    assert pickle.loads(pickle.dumps(RangesPartition([wanted]))).ranges == [wanted]  # noqa: S301


def test_a_queue_found_just_now_has_no_rows_in_this_batch() -> None:
    assert ranges_between({QUEUE: 1}, {QUEUE: 4, OTHER: 100}) == [QueueRange(QUEUE, 1, 4)]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 1000)), max_size=6),
    st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_split_ranges_cover_the_same_offsets_once_and_keep_the_bounds(
    sizes: list[tuple[int, int]], at_least: int, longest: int | None
) -> None:
    ranges = [QueueRange(MessageQueue("T", "b", n), low, low + size) for n, (low, size) in enumerate(sizes)]
    bound = {each.queue: longest or each.size for each in ranges}
    parts = split(ranges, min_partitions=at_least, longest=bound)
    for whole in ranges:
        mine = [part for part in parts if part.queue == whole.queue]
        assert [n for part in mine for n in range(part.start, part.end)] == list(range(whole.start, whole.end))
    assert all(part.size > 0 for part in parts)
    if longest is not None:
        assert all(part.size <= longest for part in parts)
    assert len(parts) >= min(at_least, sum(each.size for each in ranges))


def test_small_neighbours_are_read_by_one_task() -> None:
    parts = [
        QueueRange(MessageQueue("T", "b", n), 10, 10 + size) for n, size in enumerate((300, 400, 300, 1, 5000, 999, 1))
    ]
    assert [[each.size for each in task] for task in put_together(parts, 1000)] == [
        [300, 400, 300],
        [1],
        [5000],
        [999, 1],
    ]


def test_nothing_is_put_together_if_nothing_may_be() -> None:
    parts = [QueueRange(MessageQueue("T", "b", n), 0, 1) for n in range(3)]
    assert put_together(parts, 0) == [[part] for part in parts]
