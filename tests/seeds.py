"""Owns which seeds a run of the tests plays: each commit draws its own, so that landings walk new ground.

The head of a run names the word that its seeds were drawn from; `ROCKETLAKE_SEEDS=WORD` plays them again.
Must not know   what is played.
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_HIGHEST = 1_000_000


@cache
def word() -> str:
    """What the seeds are drawn from: the commit, where the environment names no word; without git always the same."""
    if asked := os.environ.get("ROCKETLAKE_SEEDS"):
        return asked
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


def drawn(played: str, count: int) -> range:
    """`count` seeds in a row for what is played."""
    first = random.Random(f"{played} {word()}").randrange(10_000, _HIGHEST)
    return range(first, first + count)


def seeds(played: str, *, short: int, whole: int, each: int = 1) -> list[Any]:
    """`whole` drawn seeds as parameters of a test; those behind the first `short` are for the long tier.

    Of `each` seeds that one test plays the first is given.
    """
    of_all = drawn(played, whole)
    return [
        pytest.param(seed, marks=[pytest.mark.long] if seed - of_all.start >= short else []) for seed in of_all[::each]
    ]
