"""Many histories of swaps, in two processes, with progress: `make etcd-histories SEEDS=10000`."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.histories.etcd_history import History
from tests.histories.swap_history import Wrong

CHUNK = 50


def play(seeds: range) -> tuple[int, list[str]]:
    """How many swaps were made, and the stories of the histories that are wrong."""
    logging.getLogger("rocketlake").setLevel(logging.CRITICAL + 1)  # what goes wrong is wanted here
    made, wrong = 0, []
    for seed in seeds:
        history = History(seed)
        try:
            history.run()
            made += history.made
        except Wrong as problem:
            wrong.append(str(problem))
    return made, wrong


def main() -> None:
    """Play as many seeds as the argument says; the exit code is 1 if one is wrong."""
    count = int(sys.argv[1])
    chunks = [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]
    played = failed = swaps = 0
    with ProcessPoolExecutor(2) as pool:
        for chunk, (made, wrong) in zip(chunks, pool.map(play, chunks), strict=True):
            played, failed, swaps = played + len(chunk), failed + len(wrong), swaps + made
            print("\n".join((*wrong, f"{played} histories, {swaps} swaps made, {failed} wrong")), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
