"""`make bench-spark`: the Spark formats on this machine. Prints a table and writes bench/results/<date>-spark.json.

Each load runs in a process of its own, so that one does not warm up or crowd the next.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.__main__ import machine, result_path
from bench.plan import Values
from bench.spark_loads import LOADS
from bench.spark_loads.plan import SparkLoad, SparkPlan
from bench.table import verdict

_LAST_LINE = "values "


def measure(load: SparkLoad, root: Path, *, quick: bool) -> dict[str, Any]:
    """Run a load in a process of its own; its values, or why there are none."""
    command = [sys.executable, "-m", "bench.spark_loads", "--child", str(root), "--only", load.name]
    values: Values | None = None
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command + ["--quick"] * quick, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(_LAST_LINE):
                values = json.loads(line.removeprefix(_LAST_LINE))
            else:
                print(line, end="", flush=True)
        failed = child.wait()
        errors.seek(0)
        # Java's stack traces are long, and the cause is what stands between them.
        reason = "".join(line for line in errors if not line.startswith("\tat "))[-3000:]
    if failed or values is None:
        print(f"    FAILED: {reason}", flush=True)
        return {"error": reason, "values": {}}
    print("    " + ", ".join(f"{name} {value:g}" for name, value in values.items()), flush=True)
    return {"values": values}


def plain(results: dict[str, dict[str, Any]]) -> str:
    """The table of what ran."""
    lines = []
    for load in LOADS:
        for figure in load.figures if load.name in results else ():
            if (value := results[load.name]["values"].get(figure.name)) is not None:
                limits = f"must {figure.must:g}, aim {figure.aim:g}" if figure.must and figure.aim else ""
                lines.append(f"{load.name:16} {figure.title:46} {value:12,g}  {limits:28} {verdict(figure, value)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_loads")
    parser.add_argument(
        "--only", default="", help="loads to run, joined by commas: " + ", ".join(x.name for x in LOADS)
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--root", type=Path, help="folder for stores and tables (default: the temporary folder)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = {name for name in options.only.split(",") if name}
    if unknown := wanted - {load.name for load in LOADS}:
        sys.exit(f"no such load: {', '.join(sorted(unknown))}")
    loads = [load for load in LOADS if not wanted or load.name in wanted]
    plan = SparkPlan.quick() if options.quick else SparkPlan()
    if options.child:
        print(_LAST_LINE + json.dumps(loads[0].run(options.child, plan)))
        return
    target = result_path("spark", quick=options.quick)
    results: dict[str, dict[str, Any]] = {}
    for number, load in enumerate(loads):
        print(f"load {number + 1} of {len(loads)}: {load.name} ({load.title})", flush=True)
        root = Path(tempfile.mkdtemp(prefix="rocketlake-bench-", dir=options.root))
        try:
            results[load.name] = measure(load, root, quick=options.quick)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        target.write_text(json.dumps({"machine": machine(), "plan": asdict(plan), "runs": results}, indent=1) + "\n")
    print(f"\n{plain(results)}\n\nwritten: {target}")


if __name__ == "__main__":
    main()
