from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.subscription import Subscription, parse_subscription


@pytest.mark.parametrize("expression", ["*", "", None])
def test_no_expression_means_all(expression):
    found = parse_subscription("T", expression, version=5)
    assert found == Subscription("T")
    assert (found.expression, found.tags, found.tag_codes, found.version) == ("*", frozenset(), frozenset(), 5)


def test_tags_come_with_their_java_hashes():
    found = parse_subscription("T", " TagA || TagB||TagA ||")
    assert found.tags == {"TagA", "TagB"}
    assert found.tag_codes == {2598919, 2598920}
    assert found.expression == " TagA || TagB||TagA ||"
    assert found.is_tag_type


def test_an_expression_without_a_tag_is_refused():
    with pytest.raises(UsageError, match="names no tag"):
        parse_subscription("T", " || ")


def test_another_kind_of_expression_is_kept_as_it_is():
    found = parse_subscription("T", "a > 5", "SQL92")
    assert (found.expression, found.tags, found.expression_type) == ("a > 5", frozenset(), "SQL92")
    assert not found.is_tag_type
    with pytest.raises(UsageError, match="empty"):
        parse_subscription("T", "", "SQL92")


def test_subscriptions_are_equal_whatever_their_version():
    assert parse_subscription("T", "A", version=1) == parse_subscription("T", "A", version=2)
