"""Many histories of the store, in two processes, with progress: `make store-histories SEEDS=10000`."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.histories.store_history import Broken, History

CHUNK = 50


def play(seeds: range) -> list[str]:
    """The stories of those that broke."""
    logging.getLogger("rocketlake").setLevel(logging.CRITICAL + 1)  # what goes wrong is wanted here
    broken = []
    for seed in seeds:
        try:
            History(seed).run()
        except Broken as problem:
            broken.append(str(problem))
    return broken


def main() -> None:
    """Play as many seeds as the argument says; the exit code is 1 if one broke."""
    count = int(sys.argv[1])
    chunks = [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]
    played = failed = 0
    with ProcessPoolExecutor(2) as pool:
        for chunk, broken in zip(chunks, pool.map(play, chunks), strict=True):
            played, failed = played + len(chunk), failed + len(broken)
            print("\n".join((*broken, f"{played} histories of the store, {failed} broken")), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
