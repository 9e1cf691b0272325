from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.table_wish import TableWish, format_change, table_wish


def test_attributes_say_which_table_a_topic_wants() -> None:
    assert table_wish({}) is None
    assert table_wish({"lake.body": "json"}) is None
    assert table_wish({"lake.format": "delta"}) == TableWish("delta")
    whole = {"lake.format": "iceberg", "lake.body": "json", "lake.keep.days": "30"}
    assert table_wish(whole) == TableWish("iceberg", "json", 30)


@pytest.mark.parametrize(
    "attributes",
    [
        {"lake.format": "orc"},
        {"lake.format": "delta", "lake.keep.days": "0"},
        {"lake.format": "delta", "lake.body": ""},
    ],
)
def test_a_value_of_another_program_is_refused(attributes: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"attribute lake\."):
        table_wish(attributes)


def test_the_option_becomes_a_change_of_attributes() -> None:
    assert (format_change("delta"), format_change("off")) == ("+lake.format=delta", "-lake.format")
    with pytest.raises(UsageError, match="--lake 'orc' is not known"):
        format_change("orc")
