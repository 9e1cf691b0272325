from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.limits import MinimumWait, share_bytes, share_limit

QUEUES = st.builds(
    MessageQueue, st.sampled_from(["T", "a", "Z"]), st.sampled_from(["broker-a", "broker-b"]), st.integers(0, 30)
)
QUEUE = MessageQueue("T", "broker-a", 0)


@given(st.dictionaries(QUEUES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 500))
def test_a_limit_is_shared_without_starving_a_queue_or_passing_its_end(
    backlog: dict[MessageQueue, tuple[int, int]], limit: int
) -> None:
    start = {queue: low for queue, (low, _) in backlog.items()}
    end = {queue: low + more for queue, (low, more) in backlog.items()}
    shared = share_limit(start, end, limit)
    assert all(start[queue] <= shared[queue] <= end[queue] for queue in backlog)
    assert all(shared[queue] > start[queue] for queue in backlog if end[queue] > start[queue])
    assert sum(shared.values()) - sum(start.values()) <= limit + len(backlog)


@given(
    st.dictionaries(QUEUES, st.tuples(st.integers(0, 1000), st.integers(0, 5000), st.integers(50, 5000)), min_size=1),
    st.integers(1, 3_000_000),
)
def test_a_limit_of_bytes_is_kept_and_no_queue_starves(
    backlog: dict[MessageQueue, tuple[int, int, int]], limit: int
) -> None:
    start = {queue: low for queue, (low, _, _) in backlog.items()}
    end = {queue: low + more for queue, (low, more, _) in backlog.items()}
    size = {queue: each for queue, (_, _, each) in backlog.items()}
    ends = share_bytes(start, end, limit, lambda ranges: {queue: float(size[queue]) for queue in ranges})
    assert all(start[queue] <= ends[queue] <= end[queue] for queue in backlog)
    assert all(ends[queue] > start[queue] for queue in backlog if end[queue] > start[queue])
    total = sum((ends[queue] - start[queue]) * size[queue] for queue in backlog)
    assert total <= limit * 1.1 + sum(size.values())


def test_a_limit_of_bytes_draws_the_end_in_where_messages_grow() -> None:
    """Small messages first, large ones from offset 1,000 on: the first guess would be ten times too large."""

    def mean(low: int, high: int) -> float:
        return sum(100 if at < 1000 else 10_000 for at in (low, (low + high) // 2, high - 1)) / 3

    ends = share_bytes({QUEUE: 0}, {QUEUE: 100_000}, 1_000_000, lambda r: {q: mean(*each) for q, each in r.items()})
    assert 100 <= ends[QUEUE] <= 1100


def test_a_minimum_waits_until_it_is_reached_or_the_time_is_over_and_never_with_the_first_batch() -> None:
    wait = MinimumWait(10, 60_000)
    assert not wait.holds_back({QUEUE: 0}, {QUEUE: 3}, now=0.0)
    assert wait.holds_back({QUEUE: 3}, {QUEUE: 12}, now=1.0)
    assert not wait.holds_back({QUEUE: 3}, {QUEUE: 13}, now=2.0)
    assert wait.holds_back({QUEUE: 13}, {QUEUE: 14}, now=61.9)
    assert not wait.holds_back({QUEUE: 13}, {QUEUE: 14}, now=62.0)


def test_without_news_there_is_no_batch_to_hold_back_and_no_time_runs_out() -> None:
    wait = MinimumWait(10, 60_000)
    assert not wait.holds_back({QUEUE: 0}, {QUEUE: 1}, now=0.0)
    assert not wait.holds_back({QUEUE: 1}, {QUEUE: 1}, now=59.0)
    assert wait.holds_back({QUEUE: 1}, {QUEUE: 2}, now=59.5)
