"""The rules of a group, walked at random: ours keep each acknowledged record, and every broken rule is caught.

Many more: `make replicas-search SEEDS=10000`.
"""

from __future__ import annotations

import pytest

from rocketlake.testing.replicas.rules import BROKEN, OURS
from rocketlake.testing.replicas.search import first_caught, walk

_RARE = {"a proposal outlives the log of the joiner": 1088}
"""Where to begin: the first seeds catch nothing."""


@pytest.mark.parametrize("name", OURS)
def test_our_rules_keep_what_was_acknowledged(name: str) -> None:
    sums = walk(OURS[name], range(150))
    assert sums.broken == []
    assert sums.elections > 150
    assert sums.acked > 100, "nothing was acknowledged, so nothing was tested"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_caught(name: str) -> None:
    assert first_caught(BROKEN[name], range(_RARE.get(name, 0), 4000)) is not None
