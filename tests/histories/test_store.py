"""Histories of the store by seed. `make store-histories SEEDS=10000` plays more of them."""

from __future__ import annotations

import pytest

from tests.histories.store_history import History
from tests.seeds import seeds

EACH = 15
FOUND_SOMETHING = (1739, 2168, 3302, 3406, 3656, 3859, 4180, 4415, 4460, 4957, 7954)
"""Of histories with the first 13 kinds of steps, beyond the first 300."""
FOUND_LATER = (1482, 2711, 2736, 4133, 4323, 5277, 8152, 9050, 9119, 249018, 773143)


def run_whole(history: History) -> None:
    """`run` compares the store with the model after every step; every step must have been played."""
    history.run()
    assert history.checks >= history.steps


@pytest.mark.parametrize("first", seeds("store", short=4 * EACH, whole=300, each=EACH))
def test_nothing_is_lost_doubled_or_invented(first: int) -> None:
    for seed in range(first, first + EACH):
        run_whole(History(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_seeds_that_found_something(seed: int) -> None:
    run_whole(History(seed, kinds=13))


@pytest.mark.long
@pytest.mark.parametrize("seed", FOUND_LATER)
def test_seeds_that_found_something_later(seed: int) -> None:
    run_whole(History(seed))
