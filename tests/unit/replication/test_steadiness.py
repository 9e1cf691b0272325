"""How soon a replica may join again, and how long what was appended has waited."""

from __future__ import annotations

from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.ack_age import AckAge
from rocketlake.replication.set_changes import Steadiness


def test_a_replica_that_leaves_soon_after_each_join_waits_longer_each_time() -> None:
    steadiness, now, waited = Steadiness({1, 2, 3}), 100.0, []
    for _ in range(9):
        steadiness.recorded({1, 2}, now)
        left = now
        while not steadiness.may_join(3, now, is_short=False):
            now += 0.25
        waited.append(now - left)
        steadiness.recorded({1, 2, 3}, now)
        now += 5
    assert waited == [0, 0.5, 1, 2, 4, 8, 10, 10, 10]
    steadiness.recorded({1, 2}, now)
    assert [steadiness.may_join(3, now + 1, is_short=is_short) for is_short in (False, True)] == [False, True]
    assert steadiness.may_join(4, now, is_short=False)


def test_a_replica_that_stayed_for_long_comes_back_at_once() -> None:
    steadiness = Steadiness({1, 2})
    for joined, left, is_soon in ((10.0, 15.0, False), (100.0, 160.0, True)):
        steadiness.recorded({1, 2, 3}, joined)
        steadiness.recorded({1, 2}, left)
        assert steadiness.may_join(3, left, is_short=False) == is_soon


def test_the_age_of_what_waits_is_that_of_the_oldest_byte() -> None:
    age, at = AckAge(), PhysicalOffset
    for now, end, acked in ((1.0, 100, 100), (2.0, 200, 100), (3.0, 300, 150), (4.0, 300, 150)):
        age.look(now, at(end), at(acked))
    assert [age.seconds(4.0, at(acked)) for acked in (150, 200, 300)] == [2.0, 1.0, 0.0]
    assert [age.end_of(seconds, 4.0) for seconds in (0.5, 1.5, 2.5)] == [300, 200, None]
    age.look(5.0, at(300), at(300))
    assert (age.seconds(5.0, at(300)), age.end_of(0, 5.0)) == (0.0, None)


def test_a_wait_of_hours_keeps_a_few_marks() -> None:
    age = AckAge()
    for second in range(4000):
        age.look(float(second), PhysicalOffset(100 + second), PhysicalOffset(50))
    assert (age.seconds(4000.0, PhysicalOffset(50)), len(age._marks)) == (4000.0, 256)
