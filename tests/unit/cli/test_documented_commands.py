"""Each command line of the how-to pages and the README is one that the program takes: commands, options, arguments."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from rocketlake.cli.tree import app
from tests.tidy.tree import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
LINE = re.compile(r"^(?:    )?(?:.*\| )?rocketlake (.+?)(?:  +.*|\s+#.*)?$", re.MULTILINE)
LINES = sorted({(page.name, found) for page in PAGES for found in LINE.findall(page.read_text())})


@pytest.mark.parametrize(("page", "line"), LINES, ids=lambda value: value.replace(" ", "-")[:50])
def test_a_documented_command_line_is_taken(page: str, line: str) -> None:
    command, words = typer.main.get_command(app), shlex.split(line)
    while words[0] in ("--tls-config", "--credentials"):  # of every command, with a file
        del words[:2]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert not hasattr(command, "commands"), f"{page}: {line!r} names no command"
    assert command.make_context(command.name, words).params, f"{page}: {line!r}"
