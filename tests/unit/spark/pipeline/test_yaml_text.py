"""YAML with line numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.yaml_text import Section, Text, option_text, parse_yaml, read_yaml


def test_scalars_stay_as_written_and_know_their_line() -> None:
    root = parse_yaml(b"a: true\nb: 100_000\n\nc:\n  d: 'x: y'\n", "p.yaml")
    assert root.entries["a"] == Text("true", "p.yaml, line 1")
    assert root.entries["b"] == Text("100_000", "p.yaml, line 2")
    inner = root.entries["c"]
    assert isinstance(inner, Section)
    assert inner.entries["d"] == Text("x: y", "p.yaml, line 5")


@pytest.mark.parametrize(
    ("text", "line", "line_ends"),
    [
        ("v: |\n  a b\n\n   c\nw: 1\n", 2, (2, 2, 3, 3)),
        ("v: >-\n\n  a b\n  c", 3, (2, 3)),
        ("v: a b\n  c\nw: 1\n", 1, (2, 3)),
        ("v:\n  a", 2, (1,)),
    ],
)
def test_a_text_knows_where_its_lines_ended(text: str, line: int, line_ends: tuple[int, ...]) -> None:
    found = parse_yaml(text.encode(), "p").entries["v"]
    assert isinstance(found, Text)
    assert (found.where, found.line_ends) == (f"p, line {line}", line_ends)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (b"v: [a, b]", "a,b"),
        (b"v: {orders: earliest}", '{"orders": "earliest"}'),
        (b"v: {orders: {broker-a: {0: 23, 1: -2}}}", '{"orders": {"broker-a": {"0": 23, "1": -2}}}'),
        (b"v: {orders: {broker-a: [0, 1]}}", '{"orders": {"broker-a": [0, 1]}}'),
    ],
)
def test_values_become_option_texts(text: bytes, option: str) -> None:
    assert option_text(parse_yaml(text, "p").entries["v"]) == option


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a: 1\nb: 2\na: 3\n", "line 3.*line 1"),
        (b"a: &x 1\nb: *x\n", "line 2.*aliases|aliases.*line 2"),
        (b"a: [1\nb: 2\n", "not YAML"),
        (b"- a\n", "mapping of keys"),
        (b"", "mapping of keys"),
        (b"a: \xff\n", "not UTF-8"),
        (b"a: " + b"[" * 30 + b"]" * 30, "deeper than"),
        (b"a: " + b"[" * 5000, "not YAML|deeper"),
        (b"[a]: 1\n", "plain word"),
        (b"a: \x00", "not YAML"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_its_place(raw: bytes, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_yaml(raw, "p.yaml")
    assert refused.match(f"(?s){words}")
    assert "p.yaml" in refused.value.where
    assert refused.value.hint


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="larger than"):
        read_yaml(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_yaml(tmp_path / "none.yaml")
