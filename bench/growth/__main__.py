"""`python -m bench.growth`: all long loads and all sizes; prints tables and writes bench/results/<date>-growth.json."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.__main__ import machine, result_path
from bench.growth import at_size, over_time
from bench.plan import Values


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("--only", default="", help="loads and sizes to run, joined by commas")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--minute-seconds", type=float, default=60.0, help="shorter minutes: a smoke run")
    parser.add_argument("--root", type=Path, help="folder for the stores (default: the system's temporary folder)")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name]
    root = Path(tempfile.mkdtemp(prefix="rocketlake-growth-", dir=options.root))
    target = result_path("growth")
    result: dict[str, Any] = {"machine": machine(), "minutes": {}, "sizes": {}}
    try:
        for load in over_time.LOADS:
            if not names or load.name in names:
                print(f"{load.title}: {options.minutes} minutes", flush=True)
                folder = root / load.name
                result["minutes"][load.name] = over_time.run(load, folder, options.minutes, options.minute_seconds)
                _keep(target, result, folder)
        for growing in at_size.ALL:
            if not names or growing.name in names:
                print(f"{growing.name}: {growing.unit:,} and {10 * growing.unit:,}", flush=True)
                folder = root / growing.name
                result["sizes"][growing.name] = at_size.run(growing, folder)
                _keep(target, result, folder)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(tables(result), f"\nwritten: {target}")


def _keep(target: Path, result: dict[str, Any], folder: Path) -> None:
    target.write_text(json.dumps(result, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)


def tables(result: dict[str, Any]) -> str:
    """Markdown: the first and the last minute of each load, 1x and 10x of each size."""
    lines = ["| Load | figure | first minute | last minute | ratio |", "|---|---|---|---|---|"]
    for name, minutes in result["minutes"].items():
        lines += _rows(name, minutes[0], minutes[-1])
    lines += ["", "| Size | figure | 1x | 10x | ratio |", "|---|---|---|---|---|"]
    for name, (small, large) in result["sizes"].items():
        lines += _rows(name, small, large)
    return "\n".join(lines)


def _rows(name: str, before: Values, after: Values) -> list[str]:
    rows = []
    for figure, value in after.items():
        first = before.get(figure)
        ratio = f"{value / first:.2f}" if first else ""
        rows.append(f"| {name} | {figure} | {'' if first is None else f'{first:g}'} | {value:g} | {ratio} |")
    return rows


if __name__ == "__main__":
    main()
