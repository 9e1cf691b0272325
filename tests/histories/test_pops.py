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


@pytest.mark.parametrize("seed", _FOUND)
def test_seeds_that_found_something(seed: int) -> None:
    assert run_history(seed).problems == []


def test_one_seed_has_one_history() -> None:
    assert run_history(3).trace == run_history(3).trace
