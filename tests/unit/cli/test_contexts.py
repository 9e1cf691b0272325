"""Contexts: what is kept, for whom, and which variables a command gets from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake.base.errors import ConflictError, NotThereError, UsageError
from rocketlake.cli import context_files
from rocketlake.cli.context_files import apply_context, context_in_use
from rocketlake.cli.tree import app

VARIABLES = ("NAMESRV_ADDR", "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY", "ROCKETLAKE_TLS_CONFIG")
CHOICE = "ROCKETLAKE_CONTEXT"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in (*VARIABLES, CHOICE):
        monkeypatch.setenv(variable, "")  # so that it is set back, whatever a command does
        monkeypatch.delenv(variable)
    monkeypatch.setattr(context_files, "_in_use", [])  # what a command of a test uses is no other test's
    return tmp_path / "rocketlake" / "contexts"


def typed(*words: str, given: str | None = None) -> str:
    done = CliRunner().invoke(app, words, input=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_first_one_is_in_use_and_its_secret_is_not_shown(folder: Path) -> None:
    typed("context", "add", "prod", "-n", "10.0.0.1:9876", "--user", "op", given="hidden\n")
    typed("context", "add", "test", "-n", "10.0.0.2:9876")
    for shown in (typed("context", "list"), typed("context", "show"), typed("context", "list", "-o", "yaml")):
        assert "prod" in shown
        assert "hidden" not in shown
    assert [row["context"] for row in json.loads(typed("context", "list", "-o", "json")) if row["in_use"]] == ["prod"]
    assert json.loads(typed("context", "show", "-o", "json"))["secret"] == "in the context's file"
    assert [path.stat().st_mode & 0o777 for path in sorted(folder.iterdir())] == [0o600] * 3
    apply_context(None)
    assert [os.environ[name] for name in VARIABLES[:3]] == ["10.0.0.1:9876", "op", "hidden"]
    assert context_in_use() == "prod"


def test_a_named_one_goes_before_the_variable_and_the_used_one_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    typed("context", "add", "prod", "-n", "10.0.0.1:9876", "--user", "op", "--secret", "env:PROD_SECRET")
    monkeypatch.setenv("PROD_SECRET", "there")
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.9:9876")
    apply_context(None)
    assert (os.environ["NAMESRV_ADDR"], "ROCKETMQ_ACCESS_KEY" in os.environ, context_in_use()) == (
        "10.0.0.9:9876", False, "",
    )  # fmt: skip
    apply_context("prod")
    assert [os.environ[name] for name in VARIABLES[:3]] == ["10.0.0.1:9876", "op", "there"]


def test_a_secret_of_a_file_and_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("in the file\n")
    typed("context", "add", "a", "-n", "10.0.0.1:9876", "--user", "op", "--secret", f"file:{tmp_path / 'secret'}")
    apply_context("a")
    assert os.environ["ROCKETMQ_SECRET_KEY"] == "in the file"
    typed("context", "add", "b", "-n", "10.0.0.1:9876", "--user", "op", "--secret", "env:NOWHERE")
    with pytest.raises(UsageError, match="NOWHERE"):
        apply_context("b")


def test_what_is_wrong_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="not the secret itself"):
        typed("context", "add", "a", "-n", "10.0.0.1:9876", "--user", "op", "--secret", "letmein")
    with pytest.raises(UsageError, match="no name"):
        typed("context", "add", "../a", "-n", "10.0.0.1:9876")
    with pytest.raises(NotThereError, match="no context nope"):
        typed("--context", "nope", "topic", "list")
    typed("context", "add", "a", "-n", "10.0.0.1:9876", "--user", "op", given="hidden\n")
    with pytest.raises(ConflictError, match="already"):
        typed("context", "add", "a", "-n", "10.0.0.3:9876")
    (folder / "a.json").chmod(0o644)
    with pytest.raises(UsageError, match="others may read"):
        typed("context", "show", "a")


def test_it_is_forgotten(folder: Path) -> None:
    typed("context", "add", "a", "-n", "10.0.0.1:9876")
    typed("context", "remove", "a", "--dry-run")
    assert (folder / "a.json").exists()
    typed("context", "remove", "a", "--yes")
    assert list(folder.iterdir()) == []
    with pytest.raises(NotThereError, match="no context is in use"):
        typed("context", "show")


def test_servers_take_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    typed("context", "add", "a", "-n", "10.0.0.1:9876")
    typed("run", "broker", "--help")
    assert "NAMESRV_ADDR" not in os.environ
    monkeypatch.setenv(CHOICE, "nope")
    typed("context", "list")
