"""`python -m bench.turns ROOT ROOT`: checkouts of RocketLake by turns (A B A B) under the same load on this machine.

Owns        the servers of each checkout, the table of what was measured.
Must not know   what a load drives (bench/loads).

Each ROOT is a checkout, built; the loads and their clients are those of this checkout. Prints each run and, for each
figure, the values of all rounds with the ratio of the medians to the first checkout; writes
bench/results/<date>-turns.json after each load.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.__main__ import chosen, commit_of, machine, result_path
from bench.brokers import RocketLake
from bench.plan import Earlier, Load, Plan
from bench.rounds import run_once

LOADS = "producer-64,producer-1,sync-flush-64,backlog,live,restart"
"""Those that a change of the ordinary and the hot path would show in."""


def side_of(root: Path) -> type[RocketLake]:
    """The servers of the checkout `root`."""
    return type(f"RocketLake_{root.name}", (RocketLake,), {"name": root.name, "python_path": str(root / "src")})


def run_load(load: Load, sides: list[type[RocketLake]], folder: Path, plan: Plan) -> list[dict[str, Any]]:
    """All rounds of one load by turns."""
    runs: list[dict[str, Any]] = []
    for number in range(plan.rounds):
        # Every second round begins with the last checkout: a machine that slows down hits each of them alike.
        for side in sides if number % 2 == 0 else reversed(sides):
            runs.append(run_once(load, side, folder, plan, Earlier()))
    return runs


def print_table(load: Load, names: list[str], runs: list[dict[str, Any]]) -> None:
    """A line for each figure of the load."""
    for figure in load.figures:
        found = {
            n: [r["values"][figure.name] for r in runs if r["side"] == n and figure.name in r["values"]] for n in names
        }
        if not all(found.values()):
            continue
        first = statistics.median(found[names[0]])
        for name in names:
            ratio = statistics.median(found[name]) / first if first else float("nan")
            values = " ".join(f"{value:g}" for value in found[name])
            print(f"  {load.name:16} {figure.title:28} {name:12} {ratio:6.3f}  ({values})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns")
    parser.add_argument("roots", nargs="+", type=Path, help="checkouts, built; ratios are to the first")
    parser.add_argument("--only", default=LOADS, help=f"loads to run, joined by commas (default: {LOADS})")
    parser.add_argument("--rounds", type=int, default=2, help="how many times each checkout is measured")
    parser.add_argument("--warm", type=float, default=Plan().warm, help="seconds before measuring")
    parser.add_argument("--backlog-messages", type=int, default=Plan().backlog_messages, help="messages of 1 KiB")
    options = parser.parse_args()
    plan = replace(Plan(), rounds=options.rounds, warm=options.warm, backlog_messages=options.backlog_messages)
    roots = [root.resolve() for root in options.roots]
    names = [root.name for root in roots]
    if len(set(names)) < len(names):
        parser.error("two checkouts have the same folder name: give each a name of its own, it is the column's title")
    sides = [side_of(root) for root in roots]
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-turns-"))
    target = result_path("turns")
    commits = {root.name: commit_of(root) for root in roots}
    result: dict[str, Any] = {"machine": machine(), "checkouts": commits, "runs": {}}
    try:
        for load in chosen(options.only):
            print(f"{load.name} ({load.title})", flush=True)
            result["runs"][load.name] = runs = run_load(load, sides, folder, plan)
            print_table(load, names, runs)
            target.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"written: {target}")


if __name__ == "__main__":
    main()
