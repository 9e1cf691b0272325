"""What Spark asks of the reader: filters taken and given back, parts that can travel, a part for an empty read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from rocketlake.spark.scan.options import parse_options
from rocketlake.spark.scan.parts import Places
from rocketlake.spark.scan.store_reader import FilteredStoreReader, StoreBatchReader
from rocketlake.spark.scan.tables import COLUMNS_OF
from rocketlake.spark.schema import chosen_schema


def reader(store: Any, **given: str) -> FilteredStoreReader:
    options = parse_options({"path": str(store.root)} | given)
    return FilteredStoreReader(options, chosen_schema("full", COLUMNS_OF[options.table]))


def rows(of: StoreBatchReader) -> list[dict[str, Any]]:
    sent = pickle.loads(pickle.dumps((of, of.partitions())))  # noqa: S301  Spark itself sends them so
    return [row for part in sent[1] for batch in sent[0].read(part) for row in batch.to_pylist()]


MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filter", "is_taken"),
    [
        (ds.EqualTo(("topic",), "T"), True),
        (ds.In(("queueId",), (0, 1)), True),
        (ds.GreaterThan(("queueOffset",), 2), True),
        (ds.LessThanOrEqual(("storeTimestamp",), MOMENT), True),
        (ds.EqualTo(("storeTimestamp",), MOMENT.replace(tzinfo=None)), False),
        (ds.EqualTo(("queueOffset",), 2.5), False),
        (ds.EqualTo(("queueOffset",), True), False),
        (ds.GreaterThan(("queueOffset",), 2**63 - 1), False),
        (ds.GreaterThan(("topic",), "A"), False),
        (ds.EqualTo(("body",), b"x"), False),
        (ds.EqualTo(("bornHost",), "h"), False),
        (ds.Not(ds.EqualTo(("topic",), "T")), False),
        (ds.IsNotNull(("topic",)), False),
    ],
)
def test_only_what_is_judged_exactly_is_taken(store: Any, filter: ds.Filter, is_taken: bool) -> None:
    assert [*reader(store).pushFilters([filter])] == ([] if is_taken else [filter])
    assert [*reader(store, table="index").pushFilters([filter])] == [filter]


def test_not_null_is_implied_by_a_comparison_that_was_taken(store: Any) -> None:
    asked: list[ds.Filter] = [ds.IsNotNull(("topic",)), ds.IsNotNull(("keys",)), ds.EqualTo(("topic",), "T")]
    assert [*reader(store).pushFilters(asked)] == [asked[1]]


def test_taken_filters_choose_the_rows(store: Any) -> None:
    for number in range(10):
        store.put("T", number % 2, b"%d" % number)
    store.stop()
    pushed = reader(store)
    list(pushed.pushFilters([ds.EqualTo(("topic",), "T"), ds.In(("queueOffset",), [1, 4])]))  # type: ignore[arg-type]
    assert sorted(row["body"] for row in rows(pushed)) == [b"2", b"3", b"8", b"9"]
    assert len(rows(reader(store))) == 10


def test_a_read_that_can_find_nothing_has_a_part_all_the_same(store: Any) -> None:
    store.stop()
    pushed = reader(store)
    list(pushed.pushFilters([ds.EqualTo(("commitLogOffset",), 7)]))
    assert pushed.partitions() == [Places(())]
    assert rows(pushed) == rows(reader(store)) == []
