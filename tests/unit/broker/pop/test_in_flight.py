"""Counts of popped messages, by the second in which their time is over."""

from __future__ import annotations

from rocketlake.base.clock import ManualClock
from rocketlake.broker.pop.in_flight import InFlight

KEY = "g", "T", 0


def test_what_is_not_settled_in_time_is_overdue_until_it_is_brought_back() -> None:
    clock = ManualClock()
    counts = InFlight(clock)
    due_ms = clock.now_ms() + 60_000
    counts.add(KEY, due_ms, 32)
    counts.add(KEY, due_ms + 30_000, 2)
    counts.take(KEY, due_ms, 10)
    counts.take(KEY, due_ms)
    assert counts.of(KEY) == (23, 0)
    clock.advance(62_000)
    assert counts.of(KEY) == (2, 21)
    counts.take(KEY, due_ms, 21)
    assert counts.of(KEY) == (2, 0)
    counts.take(KEY, due_ms, 1)
    assert counts.of(KEY) == (2, 0), "acknowledged too late: it was counted down already"
    counts.take(KEY, due_ms + 30_000, 5)
    assert counts.of(KEY) == (0, 0), "never below nothing"


def test_what_was_popped_before_the_start_is_not_counted_down() -> None:
    counts = InFlight(clock := ManualClock())
    counts.take(KEY, clock.now_ms() + 5000)
    assert counts.of(KEY) == (0, 0)


def test_a_topic_that_is_gone_has_nothing_in_flight() -> None:
    counts = InFlight(clock := ManualClock())
    for topic in ("T", "U"):
        counts.add(("g", topic, 1), clock.now_ms() + 5000, 3)
    counts.forget_topic("T")
    assert (counts.of(("g", "T", 1)), counts.of(("g", "U", 1))) == ((0, 0), (3, 0))
    counts.clear()
    assert counts.of(("g", "U", 1)) == (0, 0)
