"""A bucket lets its rate pass in the mean, whatever comes when, and says what passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketlake.broker.quotas.bucket import Bucket

STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 500)), max_size=200)


@given(st.integers(1, 1000), STEPS)
def test_no_more_passes_than_a_full_bucket_the_rate_and_the_last_run(rate: int, steps: list[tuple[float, int]]) -> None:
    bucket, now, passed, largest = Bucket(rate), 10.0, 0, 0
    for seconds, count in steps:
        now += seconds
        if not bucket.wait(now):
            bucket.spend(count, now)
            passed += count
            largest = max(largest, count)
    assert passed <= rate * (1 + now - 10.0) + largest + 0.001


@given(st.integers(1, 1000), STEPS)
def test_who_waits_as_long_as_he_is_told_may_go_on(rate: int, steps: list[tuple[float, int]]) -> None:
    bucket, now = Bucket(rate), 10.0
    for seconds, count in steps:
        now += seconds
        now += bucket.wait(now) + 0.001
        assert bucket.wait(now) == 0
        bucket.spend(count, now)


def test_the_measure_is_that_of_a_whole_second() -> None:
    bucket = Bucket(10)
    for tenth in range(10):
        bucket.spend(3, 20 + tenth / 10)
    assert bucket.measured(20.95) == 30
    bucket.spend(1, 21.1)
    assert bucket.measured(21.2) == 30
    assert bucket.measured(25.0) == 0


def test_a_clock_that_stands_gives_nothing_twice() -> None:
    bucket = Bucket(5)
    bucket.spend(5, 10.0)
    assert bucket.wait(10.0) > 0
    assert bucket.wait(9.0) > 0
