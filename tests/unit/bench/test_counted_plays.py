"""The plays whose instructions are counted work: each gets exactly its answers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from bench.counted_plays import PULL_MESSAGES, Play, held, pulls, sends
from bench.instructions import HERE


@pytest.mark.parametrize("play", [sends(1, 64, 64), sends(64, 64, 128), pulls(1), held(64, 64)])
def test_a_broker_gives_the_answers_that_the_play_expects(play: Play, tmp_path: Path) -> None:
    (tmp_path / "play").write_bytes(pickle.dumps((play.prepare, play.counted)))
    command = [sys.executable, "-m", "bench.counted_broker", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_counted_messages_are_those_that_the_figure_is_divided_by() -> None:
    assert [sum(step[2] for step in sends(count, 64, 128).counted) for count in (1, 64)] == [128, 128]
    assert sum(step[3] for step in pulls(2).counted) * PULL_MESSAGES == pulls(2).messages
    assert sum(step[3] for step in held(64, 128).counted) == held(64, 128).messages == 128
