"""Many walks of the model of a group, and many simulated groups, in two processes: `make replicas-search SEEDS=10000`.

Owns        the seeds of each process, the sums of all, the first seed that catches each broken rule.
Must not know   the steps of a walk, the faults of a simulation.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rocketlake.testing.replicas.model import Model
from rocketlake.testing.replicas.promises import Broken
from rocketlake.testing.replicas.rules import BROKEN, OURS, Rules
from rocketlake.testing.replicas.simulation import run_group

__all__ = ["Walks", "first_caught", "groups", "walk"]

STEPS = 1500
_CHUNK = 200


@dataclass
class Walks:
    """The sums of some walks."""

    walks: int = 0
    acked: int = 0
    elections: int = 0
    broken: list[str] = field(default_factory=list)

    def add(self, other: Walks) -> None:
        """The sum of both."""
        self.walks += other.walks
        self.acked += other.acked
        self.elections += other.elections
        self.broken += other.broken

    def __str__(self) -> str:
        return (
            f"{self.walks} walks, {self.acked} entries acknowledged, {self.elections} epochs, {len(self.broken)} broken"
        )


def walk(rules: Rules, seeds: range, steps: int = STEPS) -> Walks:
    """Walk once for each seed; every second one with faults that heal quickly."""
    sums = Walks()
    for seed in seeds:
        model = Model(seed, rules, is_mild=seed % 2 == 1)
        try:
            model.run(steps)
        except Broken as error:
            sums.broken.append(f"seed {seed}: {error}")
        sums.walks += 1
        sums.acked += len(model.promises.acked)
        sums.elections += model.elections
    return sums


def first_caught(rules: Rules, seeds: range, steps: int = STEPS) -> int | None:
    """The first of these seeds whose walk breaks a promise."""
    return next((seed for seed in seeds if walk(rules, range(seed, seed + 1), steps).broken), None)


def _chunk(job: tuple[str, int]) -> Walks:
    name, start = job
    return walk(OURS[name], range(start, start + _CHUNK))


def groups(seeds: range) -> Walks:
    """Simulate one group for each seed."""
    sums = Walks()
    for seed in seeds:
        outcome = run_group(seed)
        sums.add(
            Walks(1, outcome.acked, outcome.epochs, [f"seed {seed}: {outcome.problem}"] if outcome.problem else [])
        )
    return sums


def main(seeds: int) -> int:
    """Walk `seeds` times with each of our rules, see each broken rule caught, simulate; returns the exit code."""
    failed = False
    with ProcessPoolExecutor(2) as pool:
        for name in OURS:
            sums = Walks()
            for part in pool.map(_chunk, [(name, start) for start in range(0, seeds, _CHUNK)]):
                sums.add(part)
            print(f"{name}: {sums}", *sums.broken, sep="\n  ", flush=True)
            failed |= bool(sums.broken)
        caught = pool.map(first_caught, BROKEN.values(), [range(max(seeds, 2000))] * len(BROKEN))
        for name, seed in zip(BROKEN, caught, strict=True):
            print(f"{name}: {'NOT CAUGHT' if seed is None else f'caught by seed {seed}'}", flush=True)
            failed |= seed is None
        sums = Walks()
        for part in pool.map(groups, [range(start, min(start + 50, seeds)) for start in range(0, seeds, 50)]):
            sums.add(part)
            print(f"groups: {sums}", *part.broken, sep="\n  ", flush=True)
    return int(failed or bool(sums.broken))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
