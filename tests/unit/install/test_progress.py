from __future__ import annotations

import sys
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
