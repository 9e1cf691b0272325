"""Crash points do nothing unless told, and then kill exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketlake.base.crash_point import crash_point, struck_by

PROGRAM = "from rocketlake.base.crash_point import crash_point as c\nfor n in range(3): c('a'); c('b'); print(n)"


def run(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(Path(__file__).parents[3] / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-u", "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_nothing_happens_unless_told(tmp_path: Path) -> None:
    assert run(tmp_path).stdout.split() == ["0", "1", "2"]
    assert run(tmp_path, ROCKETLAKE_CRASH="c").returncode == 0


def test_the_process_dies_at_the_pass_that_was_named(tmp_path: Path) -> None:
    done = run(tmp_path, ROCKETLAKE_CRASH="b@2")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0"]


def test_passes_are_counted_over_processes_so_that_it_happens_once(tmp_path: Path) -> None:
    told = {"ROCKETLAKE_CRASH": "b@2", "ROCKETLAKE_CRASH_COUNT": str(tmp_path / "passes")}
    assert run(tmp_path, **told).returncode == -signal.SIGKILL
    assert run(tmp_path, **told).stdout.split() == ["0", "1", "2"]


def test_what_is_wanted_may_stand_in_a_file(tmp_path: Path) -> None:
    wanted = tmp_path / "crash"
    wanted.write_text("")
    assert run(tmp_path, ROCKETLAKE_CRASH=f"@{wanted}").returncode == 0
    wanted.write_text("a@3")
    assert run(tmp_path, ROCKETLAKE_CRASH=f"@{wanted}").stdout.split() == ["0", "1"]


def test_others_die_with_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "pids").write_text(f"{other.pid}\n")
        run(tmp_path, ROCKETLAKE_CRASH="a", ROCKETLAKE_CRASH_PIDS=str(tmp_path / "pids"))
        assert other.wait(30) == -signal.SIGKILL


def test_in_one_process_a_test_strikes_instead() -> None:
    passed: list[str] = []
    with struck_by(passed.append):
        crash_point("a")
    crash_point("a")
    assert passed == ["a"]

    class Killed(BaseException):
        pass

    def strike(_: str) -> None:
        raise Killed

    with pytest.raises(Killed), struck_by(strike):
        crash_point("a")
