"""Every help page: readable with any release of typer, and quick."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rocketlake.base.errors import UsageError
from rocketlake.cli.command import refuse_empty
from rocketlake.cli.tree import app


def paths(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield before
    for name, part in getattr(command, "commands", {}).items():
        yield from paths(part, (*before, name))


@pytest.mark.parametrize("words", [*paths(get_command(app))], ids=" ".join)
def test_a_help_page_shows_no_type_at_flags_and_no_braces(words: tuple[str, ...], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    assert "<bool>" not in result.output
    assert not re.search(r"\{\w+\}", result.output)
    assert "default: (" not in result.output


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rocketlake.cli.tree import app; from typer.main import get_command; get_command(app);"
        "print([name for name in ('rocketlake.client.config', 'rocketlake.admin.admin', 'rocketlake.broker.broker',"
        " 'pyspark', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_names_the_build() -> None:
    assert re.fullmatch(
        r"rocketlake \S+, (compiled|pure Python \(slower\)), Python 3\.\S+\n",
        CliRunner().invoke(app, ["--version"]).output,
    )


@pytest.mark.parametrize("args", [["-n", ""], ["--namesrv", ""], ["--namesrv="], ["x", "", "y"], ["--", ""]])
def test_empty_values_are_refused(args: list[str]) -> None:
    with pytest.raises(UsageError, match="is empty") as refused:
        refuse_empty(args)
    assert "in a shell" in refused.value.hint


@pytest.mark.parametrize("args", [["-n", "a:1"], ["--", "--x="], ["-p", "a=b"], ["--where=a="]])
def test_other_values_pass(args: list[str]) -> None:
    refuse_empty([])
    refuse_empty(args)
    with pytest.raises(UsageError, match="is empty"):
        refuse_empty(["-n", "", *args])
