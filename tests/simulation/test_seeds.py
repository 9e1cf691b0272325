"""Whole clusters under faults, one per seed. `make sim SEEDS=n` plays n of them; a failing seed is printed.

Again: `python -m rocketlake.testing.simulation SEED` prints what happened. A seed that found a bug is kept in
seeds/found.txt (open.txt: understood and not fixed yet); once code or faults change, a seed may take another way.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.testing.simulation import run_seed
from tests.seeds import seeds

_WHOLE = int(os.environ.get("ROCKETLAKE_SIM_SEEDS", "64"))
_FOUND = (Path(__file__).parent / "seeds" / "found.txt").read_text()
_KEPT = [int(line.split()[0]) for line in _FOUND.splitlines()]


@pytest.fixture(autouse=True)
def quiet() -> object:
    """Faults are logged as faults are; here they are wanted."""
    logger = logging.getLogger("rocketlake")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@pytest.mark.parametrize(
    "seed",
    [*seeds("clusters", short=16, whole=_WHOLE), *(pytest.param(seed, marks=pytest.mark.long) for seed in _KEPT)],
)
def test_every_rule_holds(seed: int) -> None:
    history = run_seed(seed)
    problems = "\n".join(history.problems)
    assert not history.problems, f"seed {seed}:\n{problems}\nlast events:\n" + "\n".join(history.events[-30:])
    assert history.acks, f"seed {seed}: nothing was acknowledged, so nothing was tested"


@pytest.mark.long
def test_one_seed_has_one_history() -> None:
    assert run_seed(3).events == run_seed(3).events


@pytest.mark.long
def test_other_seeds_have_other_histories() -> None:
    assert run_seed(4).events != run_seed(5).events


@pytest.mark.long
def test_the_history_does_not_depend_on_the_process() -> None:
    """Another process has other hashes of strings, other addresses and another id."""
    texts = [
        subprocess.run(
            [sys.executable, "-m", "rocketlake.testing.simulation", "6"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert "acked" in texts[0]
