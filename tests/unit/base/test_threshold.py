from __future__ import annotations

import logging
import random

from rocketlake.base.threshold import Threshold


class Calls:
    def __init__(self):
        self.seen = []

    def __call__(self, name):
        return lambda reached: self.seen.append((name, reached))


def test_a_target_already_reached_is_answered_at_once():
    calls = Calls()
    Threshold(10).wait(10, calls("a"), deadline=5)
    assert calls.seen == [("a", True)]


def test_waiters_run_in_the_order_of_their_targets_then_of_coming():
    calls = Calls()
    threshold = Threshold()
    for name, target in (("c", 30), ("a1", 10), ("b", 20), ("a2", 10), ("far", 31)):
        threshold.wait(target, calls(name), deadline=99)
    threshold.advance(30)
    assert calls.seen == [("a1", True), ("a2", True), ("b", True), ("c", True)]
    assert len(threshold) == 1


def test_the_number_never_goes_back():
    threshold = Threshold(5)
    threshold.advance(3)
    assert threshold.value == 5


def test_a_deadline_passes_once_and_a_later_advance_does_not_call_again():
    calls = Calls()
    threshold = Threshold()
    threshold.wait(10, calls("late"), deadline=1.0)
    threshold.wait(10, calls("patient"), deadline=2.0)
    assert threshold.next_deadline == 1.0
    threshold.expire(0.999)
    assert calls.seen == []
    threshold.expire(1.0)
    assert calls.seen == [("late", False)]
    assert threshold.next_deadline == 2.0
    threshold.advance(10)
    threshold.expire(100)
    assert calls.seen == [("late", False), ("patient", True)]
    assert threshold.next_deadline == float("inf")


def test_fail_all_tells_everybody_in_target_order():
    calls = Calls()
    threshold = Threshold()
    for target in (3, 1, 2):
        threshold.wait(target, calls(target), deadline=9)
    threshold.fail_all()
    threshold.advance(10)
    threshold.expire(10)
    assert calls.seen == [(1, False), (2, False), (3, False)]


def test_a_waiter_may_wait_again_and_advance_from_inside():
    calls = Calls()
    threshold = Threshold()

    def first(reached):
        calls.seen.append(("first", reached))
        threshold.wait(7, calls("inner"), deadline=9)
        threshold.advance(8)

    threshold.wait(5, first, deadline=9)
    threshold.wait(8, calls("second"), deadline=9)
    threshold.advance(5)
    assert calls.seen == [("first", True), ("inner", True), ("second", True)]
    assert threshold.value == 8


def test_a_waiter_that_fails_does_not_keep_the_others(caplog):
    calls = Calls()
    threshold = Threshold()

    def broken(reached):
        raise RuntimeError("bug")

    threshold.wait(1, broken, deadline=9)
    threshold.wait(1, calls("next"), deadline=9)
    with caplog.at_level(logging.ERROR):
        threshold.advance(1)
    assert calls.seen == [("next", True)]
    assert "bug" in caplog.text


def test_many_waiters_each_get_exactly_one_call_as_a_plain_model_says():
    numbers = random.Random(3)
    threshold = Threshold()
    got = {}
    waiting = {}
    now = 0.0
    for step in range(3000):
        kind = numbers.random()
        if kind < 0.7:
            target, deadline = threshold.value + numbers.randrange(50), now + numbers.randrange(20)
            waiting[step] = (target, deadline)
            threshold.wait(target, lambda reached, step=step: got.setdefault(step, []).append(reached), deadline)
        elif kind < 0.9:
            threshold.advance(threshold.value + numbers.randrange(10))
        else:
            now += numbers.randrange(5)
            threshold.expire(now)
        for name, (target, deadline) in list(waiting.items()):
            if threshold.value >= target:
                assert got[name] == [True]
            elif kind >= 0.9 and deadline <= now:
                assert got[name] == [False]
            else:
                assert name not in got
                continue
            del waiting[name]
    assert len(threshold) == len(waiting)
    threshold.fail_all()
    assert all(len(calls) == 1 for calls in got.values())


def test_waiters_gone_by_one_way_do_not_pile_up_in_the_other():
    threshold = Threshold()
    for round_number in range(1, 200):
        for _ in range(50):
            threshold.wait(round_number, lambda reached: None, deadline=1e9)
        threshold.advance(round_number)
    threshold.wait(10**9, lambda reached: None, deadline=1e9)
    for round_number in range(200, 400):
        for _ in range(50):
            threshold.wait(round_number, lambda reached: None, deadline=1e9)
        threshold.advance(round_number)
    assert len(threshold._by_deadline) < 500


def test_waiters_that_expired_do_not_pile_up_before_those_far_away():
    threshold = Threshold()
    threshold.wait(10**9, lambda reached: None, deadline=1e9)
    for now in range(1000):
        threshold.wait(10**6, lambda reached: None, deadline=float(now))
        threshold.expire(float(now))
    assert len(threshold) == 1
    assert len(threshold._by_target) < 100
    assert threshold.next_deadline == 1e9


def test_the_next_deadline_is_that_of_somebody_who_still_waits():
    threshold = Threshold()
    threshold.wait(1, lambda reached: None, deadline=5.0)
    threshold.wait(9, lambda reached: None, deadline=7.0)
    threshold.advance(1)
    assert threshold.next_deadline == 7.0


def test_a_hundred_thousand_waiters_are_released_in_one_go():
    """About 0.3 s; with an insertion in the middle of a list or a scan per release it would take minutes."""
    threshold = Threshold()
    count = 0

    def waiter(reached):
        nonlocal count
        count += 1

    for target in range(100_000):
        threshold.wait(1 + target * 7919 % 100_000, waiter, deadline=float(target))
    threshold.advance(100_001)
    assert count == 100_000


def test_a_number_that_is_set_back_fails_those_who_wait_beyond_it_in_target_order():
    calls = Calls()
    threshold = Threshold(10)
    for target in (40, 20, 30):
        threshold.wait(target, calls(target), deadline=9)
    threshold.set_back(20)
    assert (calls.seen, threshold.value) == ([(30, False), (40, False)], 10)
    threshold.set_back(5)
    threshold.advance(8)
    assert (threshold.value, len(threshold)) == (8, 0)
    assert calls.seen[2:] == [(20, False)]
