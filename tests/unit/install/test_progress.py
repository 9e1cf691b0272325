from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import progress


def test_a_step_that_succeeds_says_one_line_and_keeps_its_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "deep/step.log"
    assert progress.main(["a step", str(log), sys.executable, "-c", "print('many'); print('words')"]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert "words" not in said.err
    assert said.err.startswith("==> a step: done in ")
    assert log.read_text() == "many\nwords\n"


def test_a_step_that_fails_shows_what_it_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "step.log"
    code = "import sys; print('the cause', file=sys.stderr); sys.exit(3)"
    assert progress.main(["a step", str(log), sys.executable, "-c", code]) == 3
    said = capfd.readouterr().err
    assert "a step: failed" in said
    assert "the cause" in said
    assert str(log) in said


def test_the_line_moves_while_a_step_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.01)
    go_on = tmp_path / "go on"
    code = f"import os, time\nprint('Installing things')\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    step = threading.Thread(
        target=progress.main, args=(["a step", str(tmp_path / "log"), sys.executable, "-uc", code],)
    )
    step.start()
    said = ""
    while said.count("Installing things") < 3:
        said += capfd.readouterr().err
        assert step.is_alive()
    go_on.touch()
    step.join()
    assert "a step: done" in capfd.readouterr().err


def test_ctrl_c_ends_the_step_and_leaves_no_traceback(tmp_path: Path) -> None:
    code = "import time; print('begun', flush=True); time.sleep(600)"
    run = subprocess.Popen(
        [sys.executable, progress.__file__, "a step", str(tmp_path / "log"), sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not ((tmp_path / "log").exists() and "begun" in (tmp_path / "log").read_text()):
        assert run.poll() is None
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: both get it
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "==> a step: interrupted" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Collecting pyspark<4.4,>=4.2 (from rocketlake)", "Collecting pyspark<4.4,>=4.2"),
        ("gcc -shared build/a.o -L/lib -o src/rocketlake/codec/record.so", "record.so"),
        ("gcc -o", "gcc -o"),
        ("", ""),
    ],
)
def test_a_line_is_cut_to_what_is_made(text: str, said: str) -> None:
    assert progress._short(text) == said
