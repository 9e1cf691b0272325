"""The demo on a small part of its data, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_agrees_to_the_message_and_leaves_nothing_running(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    output = tmp_path / "demo-output"
    (output / "table" / "month=7").mkdir(parents=True)  # left by an earlier run
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--flights", "5000"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=500,  # a minute on a quiet machine
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r" agrees *$", done.stdout, re.MULTILINE)) == 7
    assert "DIFFERS" not in done.stdout
    assert "John F Kennedy Intl" in done.stdout
    assert (output / "flights.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (output / "table").glob("month=*")) == ["month=1"]
    assert running_for(tmp_path) == []


def running_for(folder: Path) -> list[str]:
    lines = [_command_line(process) for process in Path("/proc").glob("[0-9]*/cmdline")]
    return [line for line in lines if str(folder) in line]


def _command_line(process: Path) -> str:
    try:
        return process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it ended meanwhile
        return ""
