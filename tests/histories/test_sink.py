"""Seeded histories of a query that writes with exactly_once.

One again: `python -m tests.histories.sink_history SEED`.
"""

from __future__ import annotations

import logging

import pytest

from tests.histories.sink_history import run_history
from tests.seeds import seeds

_CHUNK = 5


@pytest.mark.parametrize("first", seeds("sink", short=2 * _CHUNK, whole=500, each=_CHUNK))
def test_each_row_of_each_batch_is_there_once_and_never_too_early(first: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # failures are wanted here
    histories = [run_history(seed) for seed in range(first, first + _CHUNK)]
    broken = [f"seed {each.seed}: {each.problems}" for each in histories if each.problems]
    assert not broken, "\n".join(broken)
    assert sum(each.delivered for each in histories) > 0, "nothing was written, so nothing was tested"
    assert sum(each.looks for each in histories) > _CHUNK, "the reader never looked"
    assert sum(each.tries for each in histories) > _CHUNK


def test_one_seed_has_one_history() -> None:
    assert run_history(11).trace == run_history(11).trace
