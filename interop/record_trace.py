"""Owns recording the text of message traces as Apache RocketMQ's client writes it, into tests/golden/trace.txt.

Run by hand: `.venv/bin/python -m interop.record_trace`. One record a line, its bytes in hex.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from interop.apache import compiled_drivers

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "trace.txt"


def main() -> None:
    command = ["java", "-cp", compiled_drivers("server550"), "Trace", "encode"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180).stdout.splitlines()
    GOLDEN.write_text("".join(f"{line[4:]}\n" for line in printed if line.startswith("hex ")))


if __name__ == "__main__":
    main()
