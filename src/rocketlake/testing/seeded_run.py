"""One run of a history whose clock is virtual and whose chance comes from its seed.

Owns        what stands still or is drawn while it runs; an error that ends it is one of its problems.
Must not know   what the history plays.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
from typing import NoReturn, Protocol
from unittest import mock

from rocketlake.base.clock import ManualClock
from rocketlake.testing.virtual_time import run_virtual

__all__ = ["History", "print_and_exit", "run_seeded"]


class History(Protocol):
    """What is played."""

    trace: list[str]
    problems: list[str]

    async def live(self) -> None:
        """Play it."""


def run_seeded(history: History, seed: int, clock: ManualClock) -> None:
    """Play it. Equal seeds give equal traces."""

    async def run() -> None:
        try:
            await history.live()
        except Exception as error:  # the trace tells more than the traceback
            history.problems.append(f"the run ended with {error!r}")
            history.trace += traceback.format_exc().splitlines()

    before = random.getstate()
    random.seed(seed)
    try:
        with mock.patch.object(os, "getpid", lambda: seed):
            run_virtual(run(), clock)
    finally:
        random.setstate(before)


def print_and_exit(history: History) -> NoReturn:
    """Print the trace, then the problems."""
    print("\n".join((*history.trace, *history.problems)))
    sys.exit(bool(history.problems))
