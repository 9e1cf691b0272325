from __future__ import annotations

import pytest

from rocketlake.base.java.java_compat import string_hash
from rocketlake.filter.tag import tag_matcher
from rocketlake.model.subscription import Subscription, parse_subscription


@pytest.mark.parametrize("expression", ["*", "", None])
def test_all_messages_need_no_test(expression: str | None) -> None:
    assert tag_matcher(parse_subscription("T", expression)) is None


def test_no_subscription_needs_no_test() -> None:
    assert tag_matcher(None) is None


def test_one_of_the_tags_is_enough() -> None:
    wanted = tag_matcher(parse_subscription("T", "A || B"))
    assert wanted is not None
    assert [tag for tag in ("A", "B", "C") if wanted(string_hash(tag))] == ["A", "B"]


def test_a_message_without_a_tag_is_not_wanted_by_a_tag_list() -> None:
    wanted = tag_matcher(parse_subscription("T", "A"))
    assert wanted is not None and not wanted(0)


def test_tags_with_the_same_java_hash_cannot_be_told_apart_here() -> None:
    wanted = tag_matcher(parse_subscription("T", "Aa"))
    assert wanted is not None and wanted(string_hash("BB"))


def test_a_negative_hash_matches_as_it_lies_in_the_entry() -> None:
    code = string_hash("polygenelubricants")
    assert code == -(2**31)
    wanted = tag_matcher(parse_subscription("T", "polygenelubricants"))
    assert wanted is not None and wanted(code)


def test_class_filters_of_old_peers_let_everything_through() -> None:
    assert tag_matcher(Subscription("T", "com.example.Filter", class_filter_mode=True)) is None
