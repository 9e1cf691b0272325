"""Histories of pops, by seed. Again: `python -m tests.histories.pop_history SEED` prints what happened."""

from __future__ import annotations

import pytest

from tests.histories.pop_history import run_history
from tests.seeds import seeds

EACH = 5
_FOUND = (2, 15, 47)
"""2: a crash took a group that its first pop had made, and with it what was acknowledged.

The others: a message got another time in the millisecond in which it was popped, and came again though it was
acknowledged."""


@pytest.mark.parametrize("first", seeds("pops", short=EACH, whole=10 * EACH, each=EACH))
def test_what_is_acknowledged_in_time_never_comes_again_and_nothing_is_lost(first: int) -> None:
    histories = [run_history(seed) for seed in range(first, first + EACH)]
    broken = {history.seed: history.problems for history in histories if history.problems}
    assert broken == {}
    assert sum(history.again for history in histories) > 0, "nothing came again, so nothing was tested"


@pytest.mark.parametrize("first", seeds("pops with steps", short=2, whole=20, each=2))
def test_the_same_while_the_clock_is_set_back_and_forth(first: int) -> None:
    histories = [run_history(seed, steps=True) for seed in range(first, first + 2)]
    broken = {history.seed: history.problems for history in histories if history.problems}
    assert broken == {}


@pytest.mark.parametrize("seed", _FOUND)
def test_seeds_that_found_something(seed: int) -> None:
    assert run_history(seed).problems == []


def test_a_seed_that_found_something_with_a_clock_that_is_set() -> None:
    """What was acknowledged came again: revive did not go back with the clock."""
    assert run_history(1, steps=True).problems == []


def test_one_seed_has_one_history() -> None:
    assert run_history(3).trace == run_history(3).trace
