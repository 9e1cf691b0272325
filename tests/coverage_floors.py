"""Owns the share of branches that the tests take in the packages where a missed one loses messages. Floors only rise.

python -m tests.coverage_floors .cache/coverage.json     (the last step of `make test-long`)
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

FLOORS = {"protocol": 97, "codec": 97, "replication": 87, "controller": 95, "auth": 100}
"""Per cent of statements and branches, whole numbers."""


def shares(report: dict[str, Any]) -> dict[str, float]:
    """Per cent by package, from the JSON report of coverage.py."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file, found in report["files"].items():
        package = Path(file).parts[Path(file).parts.index("rocketlake") + 1]
        summary = found["summary"]
        counts[package][0] += summary["covered_lines"] + summary["covered_branches"]
        counts[package][1] += summary["num_statements"] + summary["num_branches"]
    return {package: 100 * taken / there for package, (taken, there) in counts.items() if there}


def main(path: str) -> int:
    """Print the share of each package; returns 1 if one lies under its floor."""
    found = shares(json.loads(Path(path).read_text()))
    for package, floor in FLOORS.items():
        share = found.get(package, 0.0)
        told = "UNDER THE FLOOR" if share < floor else f"raise the floor to {int(share)}" if share >= floor + 1 else ""
        print(f"branch coverage of {package:<12}{share:6.1f} %, floor {floor} %  {told}".rstrip())
    return int(any(found.get(package, 0.0) < floor for package, floor in FLOORS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
