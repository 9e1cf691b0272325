from __future__ import annotations

import enum

import pytest

NAME = "rocketlake.base.java_compat"


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


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 2**80, True])
def test_wrap_around(twin, value):
    twin(NAME).same("to_int32", value)
    twin(NAME).same("to_int64", value)


@pytest.mark.parametrize("wrong", [None, "1", 1.5])
def test_wrap_around_of_no_number(twin, wrong):
    assert twin(NAME).same("to_int32", wrong) is TypeError
