"""`make bench`: Apache RocketMQ and RocketLake by turns (A B A B) under the same load on this machine.

Prints progress and a table, and writes bench/results/<date>-speed.json after each load: a broken run keeps what it
has. CPU per message of the broker process is the first figure: it holds on a noisy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import limits, table
from bench.brokers import SIDES
from bench.loads import LOADS
from bench.plan import Earlier, Load, Plan
from bench.rounds import run_once
from interop.apache import PeerMissing

RESULTS = Path(__file__).resolve().parent / "results"


def result_path(what: str, *, quick: bool = False) -> Path:
    """The file of a run that begins now; a quick run is for looking at and is kept out of the repository."""
    return RESULTS / f"{datetime.now():%Y-%m-%d-%H%M}-{what}{'-quick' if quick else ''}.json"


def run_load(load: Load, root: Path, plan: Plan, earlier: Earlier) -> list[dict[str, Any]]:
    """All rounds of one load, A B A B."""
    runs: list[dict[str, Any]] = []
    for number in range(plan.rounds):
        for kind in SIDES:
            print(f"  round {number + 1} of {plan.rounds}: {kind.name}", flush=True)
            runs.append(run_once(load, kind, root, plan, earlier))
    return runs


def rows_of(runs: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The table of what ran."""
    rows = []
    for load in LOADS:
        for figure in load.figures:
            if row := table.row_of(load, figure, runs.get(load.name, [])):
                rows.append(row)
    return rows


def machine() -> dict[str, Any]:
    """Where and on what this is measured."""
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    program = "import rocketlake.codec.property_text as module; print(module.__file__.endswith('.py'))"
    pure = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "when": f"{datetime.now():%Y-%m-%d %H:%M}",
        "cores": os.cpu_count(),
        "processor": processor,
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
        "commit": commit_of(RESULTS.parent),
        "form": "pure" if pure == "True" else "compiled",
    }


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, with `-dirty` behind it when files differ."""
    git = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def chosen(text: str) -> list[Load]:
    """The loads named in --only, in their own order."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [load.name for load in LOADS]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no such load: {', '.join(unknown)}; there are: {', '.join(known)}")
    return [load for load in LOADS if not names or load.name in names]


def options_and_plan() -> tuple[argparse.Namespace, Plan]:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--only", default="", help="loads to run, joined by commas")
    parser.add_argument("--list", action="store_true", help="name the loads and end")
    parser.add_argument("--quick", action="store_true", help="a smoke run: one round, 3 s warm-up, 5 s measured")
    parser.add_argument("--root", type=Path, help="folder for the stores (default: the system's temporary folder)")
    parser.add_argument("--rounds", type=int, help="how many times A B is run")
    parser.add_argument("--warm", type=float, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, help="seconds measured")
    parser.add_argument("--backlog-messages", type=int, help="messages of 1 KiB the consumer finds")
    options = parser.parse_args()
    given = {name: getattr(options, name) for name in ("rounds", "warm", "seconds", "backlog_messages")}
    plan = Plan.quick() if options.quick else Plan()
    return options, replace(plan, **{name: value for name, value in given.items() if value is not None})


def main() -> None:
    options, plan = options_and_plan()
    if options.list:
        print("\n".join(f"{load.name:18} {load.title}" for load in LOADS))
        return
    loads = chosen(options.only)
    root = Path(tempfile.mkdtemp(prefix="rocketlake-bench-", dir=options.root))
    earlier = Earlier()
    RESULTS.mkdir(exist_ok=True)
    target = result_path("speed", quick=options.quick)
    result: dict[str, Any] = {"machine": machine(), "plan": asdict(plan)}
    try:
        print("limits of the machine", flush=True)
        result["limits"] = limits.measure(root)
        print("  " + ", ".join(f"{name} {value:,.0f}" for name, value in result["limits"].items()), flush=True)
        for number, load in enumerate(loads):
            print(f"load {number + 1} of {len(loads)}: {load.name} ({load.title})", flush=True)
            earlier.runs[load.name] = run_load(load, root, plan, earlier)
            result |= {"table": rows_of(earlier.runs), "runs": earlier.runs}
            target.write_text(json.dumps(result, indent=1) + "\n")
    except PeerMissing as reason:
        sys.exit(f"cannot compare: {reason}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"\n{table.plain(result['table'])}\n\nwritten: {target}")


if __name__ == "__main__":
    main()
