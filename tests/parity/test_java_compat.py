from __future__ import annotations

import enum

import pytest

NAME = "rocketlake.base.java.java_compat"


class Tag(enum.StrEnum):
    A = "TagA"


class Text(str):
    pass


@pytest.mark.parametrize(
    "text", ["", "TagA", "a" * 1000, "é", "中文标签", "😀", "a😀b\U0010ffff", "\ud800", "\0", Tag.A, Text("TagA")]
)
def test_hash_of_any_text(twin, text):
    assert isinstance(twin(NAME).same("string_hash", text), int)


@pytest.mark.parametrize("wrong", [None, b"TagA", 5, ["a"], ["ab"], ("a",)])
def test_what_is_no_text_is_refused_or_taken_alike(twin, wrong):
    twin(NAME).same("string_hash", wrong)
