"""A NameSet of the kernels against a set of Python."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.codec.name_set import NameSet

names = st.text("ab_é", min_size=1, max_size=4)


@given(st.lists(names, max_size=8), st.lists(st.text("ab_é", max_size=6), max_size=20))
def test_it_holds_what_it_was_made_of(members: list[str], asked: list[str]) -> None:
    found = NameSet(members)
    for name in [*members, *asked]:
        assert (name.encode() in found) == (name in members)
        assert found.starts(name.encode()) == name.startswith(tuple(members))


def test_a_name_of_any_first_byte_is_found() -> None:
    members = [chr(unit) + "x" for unit in range(256)]
    found = NameSet(members)
    assert all(name.encode() in found for name in members)
    assert b"\xff" not in found


@pytest.mark.parametrize("members", [["", "a"], [f"n{number}" for number in range(1001)]])
def test_no_empty_name_and_not_too_many(members: list[str]) -> None:
    with pytest.raises(ValueError, match="no set of names"):
        NameSet(members)
