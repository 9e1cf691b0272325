"""Many histories of transactions, in two processes, with progress: `make transaction-histories SEEDS=10000`.

Owns        the seeds of each process, the sums of all.
Must not know   the events of a history.
"""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rocketlake.testing.transaction_history import run_history

__all__ = ["Figures", "run_histories"]

_CHUNK = 50
_TRACE_LINES = 40


@dataclass
class Figures:
    """The sums of some histories."""

    histories: int = 0
    crashes: int = 0
    questions: int = 0
    delivered: int = 0
    broken: list[str] = field(default_factory=list)
    """Problems and the end of the trace, by seed."""

    def add(self, other: Figures) -> None:
        """The sum of both."""
        self.histories += other.histories
        self.crashes += other.crashes
        self.questions += other.questions
        self.delivered += other.delivered
        self.broken += other.broken

    def __str__(self) -> str:
        return (
            f"{self.histories} histories, {len(self.broken)} broken: {self.crashes} crashes and restarts,"
            f" {self.questions} questions, {self.delivered} messages delivered"
        )


def run_histories(seeds: range) -> Figures:
    """Run these seeds, one after the other."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # failures are wanted here
    figures = Figures()
    try:
        for seed in seeds:
            history = run_history(seed)
            figures.histories += 1
            figures.crashes += history.crashes
            figures.questions += history.questions
            figures.delivered += history.delivered
            if history.problems:
                last = history.trace[-_TRACE_LINES:]
                figures.broken.append("\n".join((f"seed {seed}:", *history.problems, "last events:", *last)))
    finally:
        logging.disable(before)
    return figures


def main() -> None:
    """Run as many seeds as the argument says."""
    count = int(sys.argv[1])
    chunks = [range(first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK)]
    total = Figures()
    with ProcessPoolExecutor(2) as pool:
        for figures in pool.map(run_histories, chunks):
            total.add(figures)
            print("\n".join((*figures.broken, str(total))), flush=True)
    sys.exit(bool(total.broken))


if __name__ == "__main__":
    main()
