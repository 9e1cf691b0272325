"""The rules of a group, walked at random: ours keep each acknowledged record, and every broken rule is caught.

Many more: `make replicas-search SEEDS=10000`.
"""

from __future__ import annotations

import pytest

from rocketlake.testing.replicas.rules import BROKEN, OURS
from rocketlake.testing.replicas.search import first_caught, walk
from tests.seeds import seeds

_EACH = 50
_CAUGHT = {
    "shrinks before it is recorded, one copy": 122,
    "shrinks before it is recorded, two copies": 32,
    "a joiner counts when it is recorded": 1,
    "any two copies are enough": 3,
    "the master alone is enough": 1,
    "eligible replicas are kept for ever": 73,
    "a joiner below the start of the epoch": 52,
    "each replica may be elected": 1,
    "a lost page cache is ignored": 1,
    "swaps do not compare": 0,
    "a proposal without an answer is dropped": 60,
    "a proposal outlives the log of the joiner": 1377,
    "what a restarted master had proposed is recorded": 35,
}
"""The seed that catches each broken rule; once the walks change, another one behind it does."""


@pytest.mark.parametrize("first", seeds("walks of the rules", short=_EACH, whole=150, each=_EACH))
@pytest.mark.parametrize("name", OURS)
def test_our_rules_keep_what_was_acknowledged(name: str, first: int) -> None:
    sums = walk(OURS[name], range(first, first + _EACH))
    assert sums.broken == []
    assert sums.elections > _EACH
    assert sums.acked, "nothing was acknowledged, so nothing was tested"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_caught(name: str) -> None:
    assert first_caught(BROKEN[name], range(_CAUGHT[name], 4000)) is not None
