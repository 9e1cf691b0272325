"""Words: what comments and documents must not say, and a line in the glossary for each word of our own.

Only patterns without false alarms stand here. The house rule itself is in CONTRIBUTING.md.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGE, ROOT, TESTS, sources

OWN_WORDS = {
    *(
        "admission",
        "asker",
        "chunk",
        "cold",
        "cold request",
        "cut",
        "duty",
        "filler",
        "gate",
        "ground",
        "intake",
        "kernel",
        "kind",
        "lane",
        "late file",
        "late step",
    ),
    *(
        "mark",
        "ordinary path",
        "plain",
        "run",
        "seam",
        "sequence",
        "stage",
        "sure block",
        "tail",
        "turn",
        "twin",
        "waiter",
        "wing",
    ),
    *("doubtful", "edition", "eligible", "epoch", "goal", "in step", "life", "promise", "put back", "receipt"),
    *("set epoch", "standing"),
}
"""Words that a reader cannot guess from RocketMQ's; a new one comes here and into docs/glossary.md."""

BANNED = {
    "the start of": re.compile(r"\b(?:the|a|each|every|its) begin\b(?! to\b)|\bbegin of\b|\b(?:from|since) begin\b"),
    "the name of the actor": re.compile(r"\b(?:whoever|anybody)\b", re.IGNORECASE),
    "a document of this repository": re.compile(r"\breference \w+\.md\b|\b\w+\.md \d+\.\d"),
}
"""What to write instead -> what is not written."""

OF_A_DAY = re.compile(r"(?<![=/`])\b20\d\d-[01]\d-[0-3]\d\b(?![T/])|\bslow day\b")

ROW = re.compile(r"^\| ([\w ]+) \| .+ \| `([\w./]+)` \|$", re.MULTILINE)

PROSE = [
    *sources(".py", ".pyx", ".pxd"),
    *(path for path in sorted(TESTS.rglob("*.py")) if path.name != "test_words.py"),
    *(
        path
        for folder in ("bench", "demo", "interop", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ROOT / "interop" / "java" / "target" not in path.parents  # packages of peers
    ),
    *(path for path in sorted((ROOT / "docs").rglob("*.md"))),
    # Not CONTRIBUTING.md, which shows what not to write.
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "build_ext.py", "setup.py", "progress.py")),
]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a file, with the lines they start at; the whole text of a document."""
    text = path.read_text()
    if path.suffix == ".md":
        yield 1, text
        return
    if path.suffix != ".py":  # Cython: no tokenizer reads it
        for found in re.finditer(r'#[^\n]*|"""(?:.|\n)*?"""', text):
            yield text.count("\n", 0, found.start()) + 1, found[0]
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in token.string):
            yield token.start[0], token.string


def test_no_riddling_word_is_used() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, found.start())}: {found[0]!r}; write {instead}"
        for path in PROSE
        for line, text in prose(path)
        for instead, pattern in BANNED.items()
        for found in pattern.finditer(text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("the begin of the log", True),
        ("since the begin", True),
        ("Whoever waits", True),
        ("does anybody want it?", True),
        ("Spark keeps no offsets (reference spark.md 1.2)", True),
        ("see docs/reference/settings.md", False),
        ("frames begin at the start of the log", False),
        ("somebody waits", False),
    ],
)
def test_the_patterns_see_what_they_should(text: str, is_wrong: bool) -> None:
    assert any(pattern.search(text) for pattern in BANNED.values()) == is_wrong


def test_figures_of_a_day_stand_in_bench_results_only() -> None:
    dated = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources(".py", ".pyx", ".pxd")
        for line, text in prose(path)
        if OF_A_DAY.search(text)
    ]
    assert dated == [], "a comment says what stays true; figures and their dates belong into bench/results"


def glossary() -> dict[str, str]:
    """Each word of our own and its home."""
    text = ROOT.joinpath("docs/glossary.md").read_text().partition("## Words of our own")[2]
    return dict(ROW.findall(text))


def test_each_word_of_our_own_has_a_line_in_the_glossary() -> None:
    assert glossary().keys() == OWN_WORDS, "a word that comes or goes does so in both"


def test_the_home_of_each_word_of_our_own_is_there() -> None:
    lost = [home for home in glossary().values() if not any((place / home).exists() for place in (PACKAGE, ROOT))]
    assert lost == [], "correct docs/glossary.md"


def test_each_word_of_our_own_is_in_use() -> None:
    text = "\n".join(path.read_text().lower() for path in sources(".py", ".pyx"))
    unused = [word for word in OWN_WORDS if not re.search(rf"\b{word.removesuffix('y')}".replace(" ", r"[\s_]+"), text)]
    assert unused == [], "take them out of docs/glossary.md"
