"""Groups of real brokers and controllers in virtual time, one run for each seed. More: `make replica-groups`."""

from __future__ import annotations

import os

import pytest

from tests.seeds import seeds
from tests.simulation.real_group import run_seed

_WHOLE = int(os.environ.get("ROCKETLAKE_SIM_SEEDS", "4"))


@pytest.mark.parametrize("seed", seeds("real groups", short=2, whole=_WHOLE))
def test_what_was_acknowledged_is_kept_and_the_group_comes_back(seed: int) -> None:
    group = run_seed(seed)
    assert not group.problem, f"seed {seed}: {group.problem}\n" + "\n".join(group.events)
    assert len(group.acked) > 100, f"seed {seed}: nothing was acknowledged, so nothing was tested"
