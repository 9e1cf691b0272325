"""Scenarios are text files: commands, a line of dashes, what must happen; a blank line between two steps.

A test gives `play` a file and a world. The world has one method, `do(verb, words, options) -> list of lines`:
`lock g c1 queues=0,1` becomes `do("lock", ["g", "c1"], {"queues": "0,1"})`. Lines of a step are compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest


class World(Protocol):
    def do(self, verb: str, words: list[str], options: dict[str, str]) -> list[str]: ...


@dataclass(frozen=True)
class Step:
    line: int
    commands: list[str]
    expected: list[str]


def read_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    block: list[str] = []
    start = 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.strip()
        if line.startswith("#"):
            continue
        if line:
            start = start or number
            block.append(line)
        elif block:
            assert block.count("----") == 1, f"line {start}: a step needs one line of four dashes"
            middle = block.index("----")
            steps.append(Step(start, block[:middle], block[middle + 1 :]))
            block, start = [], 0
    assert steps, "a scenario without steps proves nothing"
    return steps


def play_file(path: Path, world: World) -> None:
    for step in read_steps(path.read_text()):
        heard: list[str] = []
        for command in step.commands:
            verb, *rest = command.split()
            words = [word for word in rest if "=" not in word]
            options = dict(word.split("=", 1) for word in rest if "=" in word)
            heard += world.do(verb, words, options)
        assert heard == step.expected, f"{path.name}, step at line {step.line}"


@pytest.fixture
def play() -> Callable[[Path, World], None]:
    return play_file
