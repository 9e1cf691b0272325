"""Batch reads on a cluster in memory, with and without filters that Spark pushes."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from rocketlake.base.errors import UsageError
from rocketlake.spark.schema import full_schema
from rocketlake.spark.source.batch_reader import PushingBatchReader, RocketMQBatchReader

Options = Callable[..., Any]
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
BEGIN_MS = 1_735_689_600_000


def rows_of(reader: Any) -> list[dict[str, Any]]:
    sent = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]  # noqa: S301  as Spark does
    return [row for part in sent for batch in reader.read(part) for row in batch.to_pylist()]


def reader_of(cluster: Any, options: Any, kind: type[Any] = RocketMQBatchReader) -> Any:
    def connect(options: Any) -> Any:
        cluster.filter_tags = options.tags
        return cluster

    return kind(options, full_schema(), connect)


@pytest.fixture
def topics(cluster: Any) -> Any:
    """Two topics, two brokers, 20 messages a queue, a message every millisecond, three kinds of tag."""
    for topic in ("T", "S"):
        for broker in ("broker-a", "broker-b"):
            for number in range(2):
                queue = cluster.add_queue(number, topic=topic, broker=broker)
                for at in range(20):
                    cluster.append(queue, b"x", tag=("A", "B", "")[at % 3], store_ms=BEGIN_MS + at)
    return cluster


@pytest.fixture
def options(make_options: Options) -> Any:
    return make_options(streaming=False, subscribe="T,S")


def test_a_batch_read_is_bounded_by_offsets_times_and_groups(topics: Any, make_options: Options) -> None:
    queue = next(iter(topics.logs))
    topics.kept["G", queue] = 7
    given = {
        "startingOffsetsByTimestamp": '{"T": "2025-01-01T00:00:00.005Z"}',
        "endingTimestamp": "2025-01-01T00:00:00.008Z",
    }
    rows = rows_of(reader_of(topics, make_options(streaming=False, **given)))
    assert sorted({row["queueOffset"] for row in rows}) == [5, 6, 7]
    assert len(rows) == 3 * 4
    rows = rows_of(reader_of(topics, make_options(streaming=False, endingOffsets="group", endingGroup="G")))
    assert len(rows) == 7
    rows = rows_of(reader_of(topics, make_options(streaming=False, startingOffsets="group", startingGroup="G")))
    assert len(rows) == 4 * 20 - 7


def test_a_start_behind_the_end_is_refused(topics: Any, make_options: Options) -> None:
    given = {"startingTimestamp": BEGIN_MS + 9, "endingTimestamp": BEGIN_MS + 3}
    with pytest.raises(UsageError, match="set 'startingTimestamp' before 'endingTimestamp'"):
        rows_of(reader_of(topics, make_options(streaming=False, **given)))


def test_an_empty_read_is_one_task_without_rows(topics: Any, make_options: Options) -> None:
    reader = reader_of(topics, make_options(streaming=False, startingTimestamp=BEGIN_MS + 1000))
    assert len(reader.partitions()) == 1
    assert rows_of(reader) == []


def test_tasks_are_bounded_by_bytes(topics: Any, make_options: Options) -> None:
    reader = reader_of(topics, make_options(streaming=False, maxBytesPerPartition="500"))
    parts = reader.partitions()
    assert all(each.size <= 5 for part in parts for each in part.ranges)
    assert len(rows_of(reader)) == 80


SIGNS: dict[type, Callable[[Any, Any], Any]] = {
    ds.EqualTo: operator.eq,
    ds.LessThan: operator.lt,
    ds.LessThanOrEqual: operator.le,
    ds.GreaterThan: operator.gt,
    ds.GreaterThanOrEqual: operator.ge,
    ds.In: lambda left, right: left in right,
}


def holds(row: dict[str, Any], filter: Any) -> bool:
    value = row[filter.attribute[0]]
    return value is not None and bool(SIGNS[type(filter)](value, filter.value))


def random_filter(rng: random.Random) -> Any:
    column, values = rng.choice(
        [
            ("topic", ["T", "S", "U"]),
            ("brokerName", ["broker-a", "broker-b"]),
            ("queueId", [0, 1, 2]),
            ("queueOffset", list(range(-1, 22))),
            ("storeTimestamp", [BEGIN + timedelta(microseconds=rng.randrange(-2000, 22_000)) for _ in range(4)]),
            ("tags", ["A", "B", "A || B", "*", " A", ""]),
            ("keys", ["k"]),
        ]
    )
    kind = rng.choice(list(SIGNS))
    value = rng.sample(values, min(len(values), rng.randrange(1, 4))) if kind is ds.In else rng.choice(values)
    return kind((column,), value)


@pytest.mark.parametrize("seed", range(80))
def test_pushed_filters_and_those_given_back_give_what_filtering_all_rows_gives(
    topics: Any, options: Any, seed: int
) -> None:
    rng = random.Random(seed)
    filters = [random_filter(rng) for _ in range(rng.randrange(1, 4))]
    everything = rows_of(reader_of(topics, options))
    assert len(everything) == 160
    expected = [row for row in everything if all(holds(row, each) for each in filters)]
    reader = reader_of(topics, options, PushingBatchReader)
    given_back = list(reader.pushFilters(filters))
    sent: Any = pickle.dumps(reader._options)
    assert pickle.loads(sent) == reader._options  # noqa: S301  Spark sends readers so
    found = [row for row in rows_of(reader) if all(holds(row, each) for each in given_back)]

    def key(row: dict[str, Any]) -> Any:
        return row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]

    assert sorted(found, key=key) == sorted(expected, key=key)


@pytest.mark.parametrize(
    ("filter", "rows"),
    [
        (ds.EqualTo(("topic",), "T"), 80),
        (ds.In(("queueOffset",), [3, 4, 9, 100]), 24),
        (ds.GreaterThanOrEqual(("storeTimestamp",), BEGIN + timedelta(milliseconds=18)), 16),
        (ds.EqualTo(("tags",), "A"), 56),
        (ds.EqualTo(("keys",), "k"), 160),
    ],
)
def test_no_more_is_read_than_the_filter_leaves(topics: Any, options: Any, filter: Any, rows: int) -> None:
    reader = reader_of(topics, options, PushingBatchReader)
    reader.pushFilters([filter])
    assert len(rows_of(reader)) == rows


def indexed(topics: Any, make_options: Options, keyIndex: str, *filters: Any) -> int:
    """How many rows are read of topic T."""
    reader = reader_of(topics, make_options(streaming=False, pushDown="true", keyIndex=keyIndex), PushingBatchReader)
    assert list(reader.pushFilters(list(filters))) == list(filters)
    return len(rows_of(reader))


def test_keys_and_ids_are_looked_up_if_the_index_may_be_trusted(topics: Any, make_options: Options) -> None:
    first, second, *_ = (queue for queue in topics.logs if queue.topic == "T")
    topics.index = {("k", False): {first: {3, 4}, second: {19}}, ("id", True): {first: {4}}}
    key, message_id = ds.EqualTo(("keys",), "k"), ds.In(("msgId",), ["id", "gone"])
    assert indexed(topics, make_options, "true", key) == 3
    assert indexed(topics, make_options, "true", key, message_id) == 1
    assert indexed(topics, make_options, "true", ds.EqualTo(("keys",), "none")) == 0
    assert indexed(topics, make_options, "false", key) == 80


def test_all_rows_are_read_where_the_index_cannot_tell(topics: Any, make_options: Options) -> None:
    first = next(queue for queue in topics.logs if queue.topic == "T")
    topics.index = {("many", False): {first: set(range(64))}}
    assert indexed(topics, make_options, "true", ds.EqualTo(("keys",), "many")) == 80
    assert indexed(topics, make_options, "true", ds.EqualTo(("keys",), "two words")) == 80
    place = ds.EqualTo(("msgId",), "0A00000100002A9F0000000000000010")
    assert indexed(topics, make_options, "true", place) == 80
