"""Options are checked before a file is opened, and a wrong one is answered with the cure."""

from __future__ import annotations

from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.scan.options import parse_options


def parse(**given: Any) -> Any:
    return parse_options({"path": "/store"} | {name.replace("_", "."): str(value) for name, value in given.items()})


def test_what_is_not_given_has_its_default() -> None:
    options = parse()
    assert (options.table, options.split_bytes, options.index_slots) == ("messages", 128 << 20, 5_000_000)
    assert (options.all_frames, options.fail_on_corrupt, options.use_indexes) == (False, False, True)
    assert (options.topics, options.tags, options.sql92, options.broker_name) == ((), frozenset(), "", None)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("1700000000123", 1_700_000_000_123), ("2023-11-14T22:13:20Z", 1_700_000_000_000),
     ("2023-11-14 22:13:20.5", 1_700_000_000_500), ("2023-11-15T00:13:20+02:00", 1_700_000_000_000)],
)  # fmt: skip
def test_times_are_milliseconds_or_iso_8601(given: str, wanted: int) -> None:
    assert parse(startingTimestamp=given).starting_ms == parse(endingTimestamp=given).ending_ms == wanted


def test_values_are_read() -> None:
    options = parse(TOPICS=" b, a,,b", tags="A || B", splitBytes="64m", frames="all", filter_sql92="a > 1")
    assert (options.topics, options.tags) == (("a", "b"), frozenset("AB"))
    assert (options.split_bytes, options.all_frames, options.sql92) == (64 << 20, True, "a > 1")
    assert parse_options({"path": "file:///data/store"}).path == "/data/store"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": " "}, "'path' is missing"),
        ({"path": "s3://bucket/store"}, "'path'.*another file system"),
        ({"tabel": "index"}, "did you mean 'table'"),
        ({"table": "queues"}, "consumequeue"),
        ({"namesrvAddr": "x:1"}, 'format\\("rocketmq"\\)'),
        ({"subscribe": "T"}, "topics"),
        ({"table": "index", "tags": "A"}, "belongs to table 'messages'"),
        ({"filter.sql92": "a >"}, "a >"),
        ({"startingTimestamp": "yesterday"}, "ISO-8601"),
        ({"frames": "torn"}, "messages, all"),
        ({"maxHashSlotNum": "0"}, "from 1"),
        ({"failOnCorrupt": "yes"}, "true or false"),
    ],
)
def test_wrong_options_are_refused_with_the_cure(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_options({"path": "/store"} | given)
