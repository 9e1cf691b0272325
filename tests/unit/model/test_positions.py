"""The types of positions: mypy refuses a queue offset where a physical offset is wanted, and the reverse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rocketlake.model.positions import Millis, PhysicalOffset, QueueOffset

_SOURCE = Path(__file__).parents[3] / "src" / "rocketlake" / "model" / "positions.py"
_USE = """
from positions import Millis, PhysicalOffset, QueueOffset


def read(place: PhysicalOffset) -> PhysicalOffset:
    return place + 100


def number(offset: QueueOffset) -> QueueOffset:
    return offset + 1


def wait(until: Millis) -> Millis:
    return until + 5


read(PhysicalOffset(7))
number(QueueOffset(7))
wait(Millis(7))
"""


_MIX_UPS = ["read(QueueOffset(7))", "number(PhysicalOffset(7))", "wait(QueueOffset(7))", "read(7)"]


def test_mypy_refuses_each_mix_up_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "positions.py").write_text(_SOURCE.read_text())
    use = tmp_path / "use.py"
    use.write_text("\n".join([_USE, *_MIX_UPS, ""]))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(use)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line for line in answer.stdout.splitlines() if ": error:" in line]
    lines = use.read_text().splitlines()
    assert len(errors) == len(_MIX_UPS), answer.stdout + answer.stderr
    for mix_up, error in zip(_MIX_UPS, errors, strict=True):
        assert error.startswith(f"use.py:{lines.index(mix_up) + 1}: error: Argument 1"), error


def test_they_are_plain_numbers_at_run_time() -> None:
    assert QueueOffset is PhysicalOffset is Millis is int
