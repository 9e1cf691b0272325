"""`python -m bench.table FILE`: the Markdown table of a result (bench/results/*.json)."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.plan import Figure, Load

NOISY = 0.10
"""Apache's runs may differ by this much before a row says so."""


def row_of(load: Load, figure: Figure, runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Medians of both sides, their spreads and what is reached; None when nobody measured the figure."""
    found: dict[str, list[float]] = {"apache": [], "rocketlake": []}
    for run in runs:
        if figure.name in run["values"]:
            found[run["side"]].append(run["values"][figure.name])
    if not found["rocketlake"] and not found["apache"]:
        return None
    medians = {side: statistics.median(values) if values else None for side, values in found.items()}
    spreads = {side: spread(values) for side, values in found.items()}
    apache, ours = medians["apache"], medians["rocketlake"]
    ratio = round(ours / apache, 3) if apache and ours is not None else None
    judged = ratio if figure.limits_of == "ratio" else ours
    return {
        "load": load.name,
        "title": load.title,
        "figure": figure.title,
        "apache": apache,
        "rocketlake": ours,
        "ratio": ratio,
        "apache_spread": spreads["apache"],
        "rocketlake_spread": spreads["rocketlake"],
        "noisy": (spreads["apache"] or 0) > NOISY,
        "limits_of": figure.limits_of,
        "better": figure.better,
        "must": figure.must,
        "aim": figure.aim,
        "verdict": verdict(figure, judged),
    }


def spread(values: list[float]) -> float | None:
    """(largest - smallest) / median; None for less than two values."""
    if len(values) < 2 or not (middle := statistics.median(values)):
        return None
    return round((max(values) - min(values)) / middle, 3)


def verdict(figure: Figure, value: float | None) -> str:
    """`aim` reached, `must` reached, `missed`; `` when nothing has to be reached."""
    if figure.must is None or value is None:
        return ""
    for name, limit in (("aim", figure.aim), ("must", figure.must)):
        if limit is not None and (value >= limit if figure.better == "higher" else value <= limit):
            return name
    return "missed"


def markdown(result: dict[str, Any]) -> str:
    """The table with the machine above it."""
    machine = result["machine"]
    lines = [
        f"{machine['when']}, {machine['cores']} cores, {machine['processor']}, Python {machine['python']}, "
        f"commit {machine['commit']}, {machine['form']} form; warm-up {result['plan']['warm']:g} s, measured "
        f"{result['plan']['seconds']:g} s, {result['plan']['rounds']} rounds A B.",
        "",
        "Limits of the machine: "
        + ", ".join(f"{name.replace('_', ' ')} {value:,.0f}" for name, value in result["limits"].items())
        + ".",
        "",
        "| Load | Figure | Apache 5.5.0 | RocketLake | Ratio | Must | Aim | Reached | Spread A / B |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["table"]:
        cells = (
            row["title"],
            row["figure"],
            number(row["apache"]),
            number(row["rocketlake"]),
            number(row["ratio"]),
            limit(row, "must"),
            limit(row, "aim"),
            row["verdict"],
            f"{percent(row['apache_spread'])} / {percent(row['rocketlake_spread'])}"
            + (" (Apache's runs differ by more than 10 %)" if row["noisy"] else ""),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plain(rows: list[dict[str, Any]]) -> str:
    """The same for a terminal."""
    lines = [f"{'load':18} {'figure':32} {'Apache':>12} {'RocketLake':>12} {'ratio':>7} {'must':>7} {'aim':>7}"]
    for row in rows:
        mark = "  Apache's runs differ by more than 10 %" if row["noisy"] else ""
        lines.append(
            f"{row['load']:18} {row['figure']:32} {number(row['apache']):>12} {number(row['rocketlake']):>12} "
            f"{number(row['ratio']):>7} {limit(row, 'must'):>7} {limit(row, 'aim'):>7}  {row['verdict']}{mark}"
        )
    return "\n".join(lines)


def limit(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    sign = "≥" if row["better"] == "higher" else "≤"
    return f"{sign} {value:g}" + ("x" if row["limits_of"] == "ratio" else "")


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m bench.table bench/results/FILE.json")
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()
