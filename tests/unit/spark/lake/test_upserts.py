"""Tables that are kept up to date by key: the newest row of each key, whatever comes in which order or twice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructType
from typer.testing import CliRunner

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.cli.tree import app
from rocketlake.spark.lake.data_source import RocketMQLakeDataSource
from rocketlake.spark.lake.maintenance import clean, compact, open_described
from rocketlake.spark.lake.options import NAMES, parse_options, table_location
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.upserts.spark_hash import buckets_of
from rocketlake.spark.places.location import Location, location_of
from rocketlake.spark.places.memory import Faults
from tests.faulty_s3 import FaultyS3
from tests.rest_catalog import rest_catalog
from tests.seeds import seeds
from tests.unit.spark.lake.conftest import Query, Row, message, places, table_rows

SCHEMA = "shop string, id bigint, version bigint, price double, gone boolean"
RULE = {"bodyFormat": "json", "bodySchema": SCHEMA, "versionColumn": "version", "deleteWhen": "gone"}
FORMATS = ["delta", "iceberg"]
POINTS = ["", "lake.mid_write", "lake.after_write", "lake.before_commit", "lake.after_changes", "lake.after_commit"]
Change = dict[str, Any]
RESTARTS = "did not answer|did not take a data file|another driver committed this batch"


def bodies(changes: Sequence[Change], first: int = 0) -> list[Row]:
    """The messages that carry the changes."""
    return [message(first + at, body=json.dumps(change).encode()) for at, change in enumerate(changes)]


def change(id: int, version: int, *, gone: bool = False, shop: str = "a") -> Change:
    return {"shop": shop, "id": id, "version": version, "price": version / 4, "gone": gone}


def kept(table: Path | Location) -> list[tuple[str, int, int, float]]:
    return sorted((row["shop"], row["id"], row["version"], row["price"]) for row in table_rows(table))


def by_pandas(changes: Sequence[Change], keys: Sequence[str]) -> list[tuple[str, int, int, float]]:
    """What should be there: of each key the change with the highest version, unless it is a delete."""
    if not changes:
        return []
    newest = pd.DataFrame(changes).sort_values("version", kind="stable").groupby(list(keys)).tail(1)
    left = newest[~newest["gone"]][["shop", "id", "version", "price"]]
    return sorted((str(s), int(i), int(v), float(p)) for s, i, v, p in left.itertuples(index=False))


class Keyed(Query):
    """A query whose tasks may have the numbers of buckets, as behind a repartition by key."""

    by_bucket = False

    def task(self, rows: Sequence[Row], *, size: int = 7) -> Any:
        TaskContext._getOrCreate()._partitionId = rows[0]["queueId"] if self.by_bucket and rows else None
        return super().task(rows, size=size)


def drawn(rng: random.Random, count: int) -> list[Change]:
    """Changes of few keys, each with a version of its own; some come twice, some late."""
    made = [
        change(rng.randrange(6), number, gone=rng.random() < 0.25, shop=rng.choice("ab")) for number in range(count)
    ]
    made += [each for each in made if rng.random() < 0.15]
    made.sort(key=lambda each: each["version"] + rng.choice([0, 0, 0, rng.randrange(20)]))
    return made


def cut(rng: random.Random, rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of a batch as those of its tasks."""
    tasks: list[list[Row]] = [[] for _ in range(rng.randrange(1, 4))]
    for row in rows:
        number = rng.randrange(len(tasks))
        tasks[number].append(row | {"queueId": number})
    return tasks


def cut_by_bucket(rows: Sequence[Row], keys: Sequence[str], count: int) -> list[list[Row]]:
    """The same as Spark cuts them by `repartition(count, *keys)`."""
    found = [json.loads(row["body"]) for row in rows]
    columns = [pa.chunked_array([[each[key] for each in found]]) for key in keys]
    buckets = buckets_of(columns, count) if rows else []
    return [
        [row | {"queueId": number} for row, bucket in zip(rows, buckets, strict=True) if bucket == number]
        for number in range(count)
    ]


def history(
    rng: random.Random, table: Path | Location, end_faults: Callable[[], None] | None = None, **options: str
) -> None:
    """Batches with all that Spark and a kill may do to them, then a new query that reads all again.

    `end_faults`: the table lies in a store with faults, which end before it is read.
    """
    restart_on = RESTARTS if end_faults else ""
    keys, count = rng.choice([["id"], ["shop", "id"]]), rng.choice([1, 2, 5])
    options |= RULE | {"mergeKeys": ",".join(keys), "mergeBuckets": str(count)}
    changes = drawn(rng, rng.randrange(1, 60))
    rows = bodies(changes)
    query = Keyed(str(table), **options)
    ends = [0, *sorted(rng.randrange(len(rows) + 1) for _ in range(rng.randrange(4))), len(rows)]
    for first, end in pairwise(ends):
        query.by_bucket = rng.random() < 0.5
        tasks = cut_by_bucket(rows[first:end], keys, count) if query.by_bucket else cut(rng, rows[first:end])
        query.run_with_trouble(tasks, rng, crash=rng.choice(POINTS), restart_on=restart_on)
        assert end_faults or kept(table) == by_pandas(changes[:end], keys)
    again = Keyed(str(table), "q-2", **options)
    again.run_with_trouble(cut(rng, rows), rng, restart_on=restart_on)
    if end_faults:
        end_faults()
    assert kept(table) == by_pandas(changes, keys)


@pytest.mark.parametrize("first", seeds("lake upserts", short=3, whole=99, each=3))
def test_a_table_is_what_pandas_makes_of_the_changes(first: int, memory_path: Path) -> None:
    for seed in range(first, first + 3):
        rng = random.Random(seed)
        history(rng, memory_path / f"t-{seed}", tableFormat="iceberg" if seed % 5 == 0 else "delta")


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return settings | {"s3.request-timeout": "1"}


@pytest.mark.parametrize("seed", seeds("lake upserts on a faulty S3", short=1, whole=12))
def test_upserts_on_a_faulty_s3_server(seed: int, server: FaultyS3, settings: dict[str, str]) -> None:
    table = location_of(f"s3://b/upserts-{seed}", settings, what="the table")
    server.begin_faults(seed, puts=0.1, others=0.01)
    history(random.Random(seed), table, server.end_faults, **settings)
    if rows := kept(table):
        found = DeltaTable(str(table), storage_options=table.open().library_options()).to_pandas()
        assert sorted(found["id"]) == sorted(row[1] for row in rows)


@pytest.mark.parametrize("seed", seeds("lake upserts in a faulty catalog", short=1, whole=12))
def test_upserts_in_a_faulty_catalog(seed: int, memory_path: Path) -> None:
    with rest_catalog(memory_path) as rest:
        options = {"tableFormat": "iceberg", "catalog.type": "rest", "catalog.uri": rest.address}
        table = table_location(NAMES.given({"path": f"{memory_path}/t", **options}))
        rest.faults = Faults(random.Random(seed), puts=0.2, others=0.03)
        history(random.Random(seed), table, rest.end_faults, **options)
        if rows := kept(table):
            found = rest.catalog.load_table(("lake", "t")).scan().to_arrow()
            assert sorted(found["id"].to_pylist()) == sorted(row[1] for row in rows)


def query_of(folder: Path, table_format: str, **more: str) -> Keyed:
    return Keyed(folder, tableFormat=table_format, mergeKeys="id", mergeBuckets="2", **RULE, **more)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_late_change_does_not_bring_back_a_deleted_row(tmp_path: Path, table_format: str) -> None:
    query = query_of(tmp_path / "t", table_format)
    query.run(bodies([change(1, 10), change(2, 10)]))
    query.run(bodies([change(1, 20, gone=True), change(3, 5, gone=True)], 2))
    query.run(bodies([change(1, 15), change(3, 4), change(2, 11)], 4))
    assert [row[1:3] for row in kept(tmp_path / "t")] == [(2, 11)]
    query.run(bodies([change(1, 21)], 7))
    assert [row[1:3] for row in kept(tmp_path / "t")] == [(1, 21), (2, 11)]


def test_a_delete_is_forgotten_past_its_retention(tmp_path: Path) -> None:
    query = query_of(tmp_path / "t", "delta", deleteRetention="0s")
    query.run(bodies([change(1, 10)]))
    query.run(bodies([change(1, 20, gone=True)], 1))
    query.run(bodies([change(1, 15)], 2))
    assert [row[1:3] for row in kept(tmp_path / "t")] == [(1, 15)]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_bucket_without_a_row_remembers_its_deletes(tmp_path: Path, table_format: str) -> None:
    query = query_of(tmp_path / "t", table_format)
    query.run(bodies([change(1, 10, gone=True)]))
    assert kept(tmp_path / "t") == []
    query.run(bodies([change(1, 5)], 1))
    assert kept(tmp_path / "t") == []


@pytest.mark.parametrize("table_format", FORMATS)
def test_one_commit_a_batch_and_nothing_is_left_beside_the_table(tmp_path: Path, table_format: str) -> None:
    query = query_of(tmp_path / "t", table_format)
    query.run(bodies([change(number, 1) for number in range(20)]), bodies([change(3, 2)], 20))
    query.run(bodies([change(4, 2)], 21), bodies([change(4, 3)], 22))
    table = open_described(tmp_path / "t")[0]
    assert [each.operation for each in table.history(9)][:2] == ["merge", "merge"]
    assert len(table.files()) == 2
    assert clean(tmp_path / "t", grace_seconds=0, abandoned=True, dry_run=True, now=1e12, progress=print) == 0
    assert compact(tmp_path / "t", 128 << 20, dry_run=False, progress=print).rewrites == 0
    query.task(bodies([change(4, 4)], 23))  # its driver is gone
    assert clean(tmp_path / "t", grace_seconds=0, abandoned=True, dry_run=False, now=1e12, progress=print) == 1
    assert [row[2] for row in kept(tmp_path / "t") if row[1] == 4] == [3]


def test_info_says_by_what_a_table_is_kept_up_to_date(tmp_path: Path) -> None:
    query_of(tmp_path / "t", "delta").run(bodies([change(1, 1)]))
    shown = CliRunner().invoke(app, ["lake", "info", str(tmp_path / "t")], catch_exceptions=False).output
    assert "newest row of each id by version in 2 buckets" in shown
    shown = CliRunner().invoke(app, ["lake", "info", str(tmp_path / "t"), "-o", "json"], catch_exceptions=False).output
    assert json.loads(shown)["merge"] == "id by version in 2"


def test_a_task_with_the_bucket_of_its_number_leaves_nothing_for_the_driver(tmp_path: Path) -> None:
    query = query_of(tmp_path / "t", "delta")
    query.by_bucket = True
    tasks = cut_by_bucket(bodies([change(number, 1) for number in range(20)]), ["id"], 2)
    written = [query.task(rows).tables[0] for rows in tasks]
    assert [(len(table.files), len(table.changes)) for table in written] == [(1, 0), (1, 0)]
    query.by_bucket = False
    (table,) = query.task(tasks[0]).tables
    assert (len(table.files), len(table.changes)) == (0, 1)


def test_rows_without_key_or_version_are_dead_letters(tmp_path: Path) -> None:
    query = query_of(tmp_path / "t", "delta")
    rows = [*bodies([change(1, 1)]), message(1, body=b'{"id": 1}'), message(2, body=b'{"version": 1}')]
    query.run(rows)
    assert len(kept(tmp_path / "t")) == 1
    dead = table_rows(Path(f"{tmp_path}/t__dlq"))
    assert places(dead) == places(rows[1:])
    assert [row["dlqReason"].split(",")[0] for row in dead] == ["column 'version' is null", "column 'id' is null"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_two_queries_that_write_at_once_are_told(tmp_path: Path, table_format: str) -> None:
    first = query_of(tmp_path / "t", table_format)
    first.run(bodies([change(number, 1) for number in range(8)]))
    first.by_bucket = True
    (rows, _) = cut_by_bucket(bodies([change(number, 2) for number in range(8)], 8), ["id"], 2)
    written = first.task(rows)
    other = query_of(tmp_path / "t", table_format)
    other.query = "q-2"
    other.run(bodies([change(number, 3) for number in range(8)]))
    with pytest.raises(StoreError, match="another program changed this table"):
        first.commit([written])
    first.abort([written])
    first.run(rows)
    assert {row[2] for row in kept(tmp_path / "t")} == {3}


@pytest.mark.parametrize("table_format", FORMATS)
def test_two_queries_that_make_a_bucket_at_once_are_told(tmp_path: Path, table_format: str) -> None:
    first, other = query_of(tmp_path / "t", table_format), query_of(tmp_path / "t", table_format)
    other.query = "q-2"
    first.by_bucket = other.by_bucket = True
    rows, _ = cut_by_bucket(bodies([change(number, 1) for number in range(8)]), ["id"], 2)
    written = first.task(rows)
    other.run(rows)
    with pytest.raises(StoreError, match="another program changed this table"):
        first.commit([written])
    first.run(rows)
    assert len(kept(tmp_path / "t")) == len(rows)


def test_a_table_for_each_topic(tmp_path: Path) -> None:
    query = query_of(tmp_path / "t", "delta", tableLayout="topic")
    query.run([row | {"topic": topic} for topic in ("a", "b") for row in bodies([change(1, 2), change(2, 1)])])
    query.run([row | {"topic": "b"} for row in bodies([change(1, 3), change(2, 2, gone=True)], 2)])
    found = [[row[1:3] for row in kept(tmp_path / "t" / topic)] for topic in ("a", "b")]
    assert found == [[(1, 2), (2, 1)], [(1, 3)]]


def test_a_batch_write_is_an_upsert_too(tmp_path: Path) -> None:
    schema = StructType().add("id", LongType()).add("version", LongType()).add("name", StringType())
    given = {"tableFormat": "delta", "mergeKeys": "id", "versionColumn": "version", "path": str(tmp_path / "t")}
    for version, names in ((0, "ab"), (1, "bc"), (1, "bc")):  # the second is written twice
        options = given | {"txnAppId": "nightly", "txnVersion": str(version)}
        writer: Any = RocketMQLakeDataSource(options).writer(schema, overwrite=False)
        rows = [{"id": ord(name), "version": version, "name": name} for name in names]
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(rows, arrow(schema))]))])
    assert sorted((row["name"], row["version"]) for row in table_rows(tmp_path / "t")) == [("a", 0), ("b", 1), ("c", 1)]


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    query = query_of(tmp_path / "t", "delta")
    query.run(bodies([change(1, 1)]))
    table = DeltaTable(str(tmp_path / "t"))
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    with pytest.raises(StoreError, match="has a file that was not written so"):
        query.run(bodies([change(2, 1)], 1))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mergeKeys": "id", "tableFormat": "parquet"}, "tableFormat is parquet"),
        ({"mergeKeys": "id", "partitionBy": "shop"}, "mergeKeys and partitionBy"),
        ({"mergeKeys": "id,id"}, "option 'mergeKeys' is 'id,id'"),
        ({"versionColumn": "version"}, "'versionColumn' belongs to upserts"),
        ({"mergeKeys": "id", "bodyFormat": "json", "bodySchema": ""}, "columns that are known"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], error: str) -> None:
    given = {"path": "/t", "tableFormat": "delta", "bodyFormat": "json", "bodySchema": SCHEMA} | options
    with pytest.raises(UsageError, match=error):
        parse_options(given, streaming=True)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mergeKeys": "nothing"}, "'mergeKeys' names 'nothing'"),
        ({"mergeKeys": "price"}, "'mergeKeys' names 'price', which is double"),
        ({"versionColumn": "shop"}, "'versionColumn' names 'shop', which is string"),
        ({"deleteWhen": "shop"}, "'deleteWhen' names 'shop', which is string"),
    ],
)
def test_columns_that_cannot_be_what_they_are_named_for(tmp_path: Path, options: dict[str, str], error: str) -> None:
    given = {"tableFormat": "delta", "mergeKeys": "id"} | RULE | options
    with pytest.raises(UsageError, match=error):
        Query(tmp_path / "t", **given).writer()


def test_a_rule_stays_as_long_as_its_table(tmp_path: Path) -> None:
    query_of(tmp_path / "t", "delta").run(bodies([change(1, 1)]))
    query = query_of(tmp_path / "t", "delta")
    query.options["mergeBuckets"] = "3"
    with pytest.raises(UsageError, match="has 'id by version in 2', the option 'mergeKeys' means 'id by version in 3'"):
        query.task(bodies([change(2, 1)]))
