from __future__ import annotations

from rocketlake.broker.put_latency import PutLatency


def test_puts_fall_into_the_classes_that_apache_has() -> None:
    latency = PutLatency()
    latency.note(0.0005, 90)
    latency.note(0.02, 9)
    latency.note(30)
    assert latency.to_text().startswith("[<=0ms]:90 [0~10ms]:0 [10~50ms]:9 [50~100ms]:0 ")
    assert latency.to_text().endswith("[5~10s]:0 [10s~]:1")
    assert latency.max_ms == 30_000


def test_percentiles_are_right_within_a_quarter() -> None:
    latency = PutLatency()
    assert latency.percentile_ms(0.99) == 0.0
    for ms in range(1, 1001):
        latency.note(ms / 1000)
    assert 990 <= latency.percentile_ms(0.99) <= 990 * 1.25
    assert 500 <= latency.percentile_ms(0.5) <= 500 * 1.25


def test_what_is_older_than_two_minutes_is_forgotten_but_for_the_longest() -> None:
    latency = PutLatency()
    latency.note(1.0)
    latency.roll()
    latency.note(0.001)
    assert latency.percentile_ms(1.0) >= 1000
    latency.roll()
    latency.roll()
    assert latency.percentile_ms(1.0) == 0.0
    assert latency.max_ms == 1000


def test_the_histogram_counts_since_the_start() -> None:
    latency = PutLatency()
    latency.note(0.0001, 3)  # on a bound: at most that long
    for _ in range(4):
        latency.roll()
    latency.note(0.0015, 2)
    latency.note(30)
    found = latency.histogram()
    counts = {bound: count for bound, count in zip(found.bounds, found.counts, strict=False) if count}
    assert counts == {0.0001: 3, 0.002: 2}
    assert found.counts[-1] == 1
    assert sum(found.counts) == 6
