"""Owns `make fuzz`: every target in turns for so many seconds, one line of progress for each turn.

    python -m tests.fuzz 600 [TARGET ...]

What is found is written to tests/fuzz/found, where the suite plays it from then on. A target that found something is
left out for the rest of the run. Exit code 1 if anything was found.
Must not know   single targets.
"""

from __future__ import annotations

import logging
import random
import resource
import sys
import time

from tests.fuzz.all_targets import TARGETS
from tests.fuzz.target import Finding, keep, play
from tests.seeds import word

TURN_SECONDS = 5.0
BATCH = 50
"""Examples from one seed. Hypothesis looks for what is new only within them."""


def main(words: list[str]) -> int:
    """Play until the seconds are over; returns the exit code."""
    logging.getLogger().addHandler(logging.NullHandler())
    seconds = float(words[0]) if words else 600.0
    unknown = set(words[1:]) - set(TARGETS)
    if unknown:
        raise SystemExit(f"no targets: {', '.join(sorted(unknown))}. There are {', '.join(TARGETS)}")
    left = [TARGETS[name] for name in words[1:] or TARGETS]
    turn = min(TURN_SECONDS, seconds / len(left))
    draw = random.Random(f"fuzz {word()} {time.time_ns()}")
    began, found, examples = time.monotonic(), 0, 0
    while left and time.monotonic() - began < seconds:
        for target in tuple(left):
            turn_began, played = time.monotonic(), 0
            try:
                while time.monotonic() - turn_began < turn:
                    play(target, draw.randrange(1 << 60), BATCH)
                    played += BATCH
            except Finding as finding:
                found += 1
                left.remove(target)
                print(f"FOUND {keep(finding)}\n{finding}", flush=True)
            took, passed = time.monotonic() - turn_began, time.monotonic() - began
            examples += played
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            rate = f"{played / took:7.0f} examples/s"
            print(f"{passed:5.0f} s  {target.name:<16}{rate}  peak {peak_mib} MiB  found {found}", flush=True)
            if passed >= seconds:
                break
    print(f"{examples} examples of {len(TARGETS)} targets, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
