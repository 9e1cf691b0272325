"""The ends of light queues: a dict in pieces, which goes on while its light queues are walked through."""

from __future__ import annotations

import random

from rocketlake.broker.lite.ends import Ends
from tests.seeds import drawn

COUNT = 5000


def test_a_walk_goes_on_while_light_queues_come_change_and_go() -> None:
    chance = random.Random(*drawn("ends of light queues", 1))
    ends, all_there = Ends(), {chance.getrandbits(128): number + 1 for number in range(COUNT)}
    for key, end in all_there.items():
        ends.put(key, end)
    assert len(ends) == COUNT
    seen: dict[int, int] = {}
    left = list(all_there)
    for some in ends.steps(50):
        assert len(some) <= 50
        assert not seen.keys() & dict(some).keys()
        assert all(ends.get(key) == end for key, end in some), "as they are at this step"
        seen.update(some)
        ends.put(left.pop(), COUNT + 1)
        gone = left.pop()
        ends.drop(gone)
        assert ends.get(gone) == 0
        ends.put(chance.getrandbits(128), 1)
    stayed = {key for key in all_there if ends.get(key)}
    assert len(stayed) < COUNT
    assert stayed <= seen.keys()
    assert len(ends) == COUNT == sum(map(len, ends.steps(COUNT)))


def test_no_step_lists_or_frees_more_than_a_part() -> None:
    """A list of all of them holds up the loop for most of a second if they are ten million."""
    ends = Ends()
    for key in range(COUNT):
        ends.put(key, 1)
    assert max(map(len, ends.steps(COUNT))) < COUNT / 50
    left = COUNT
    for _ in ends.free():
        before, left = left, sum(map(len, ends.steps(COUNT)))
        assert before - COUNT / 50 < left < before
    assert left == 0


def test_who_looks_for_expired_ones_while_the_table_is_freed_finds_less_and_less() -> None:
    ends = Ends()
    for key in range(COUNT):
        ends.put(key, 1)
    freeing = ends.free()
    for some in ends.steps(10):
        for key, _ in some:
            ends.drop(key)
        next(freeing, None)
    assert (len(ends), ends.get(COUNT - 1)) == (0, 0)
