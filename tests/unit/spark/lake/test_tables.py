"""Where rows go: partitions and their names, one table or many, options, batch writes, what a plan refuses."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql.types import StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.ddl import parse_ddl
from rocketlake.spark.lake.data_source import RocketMQLakeDataSource
from rocketlake.spark.lake.options import parse_options
from rocketlake.spark.lake.partition_names import ascii_folder, partition_folder, safe_name
from rocketlake.spark.lake.partitioning import with_store_day
from rocketlake.spark.lake.reader import LakeReader
from rocketlake.spark.lake.table_schema import arrow, stream_columns
from rocketlake.spark.lake.tables import iceberg_table
from rocketlake.spark.lake.task import topic_folder
from tests.unit.spark.lake.conftest import DAY, Query, batch_of, message, places, table_rows

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
FORMATS = ["parquet", "delta", "iceberg"]
ODD = [
    "plain",
    "a/b",
    "../../etc",
    "..",
    "a=b",
    "50%",
    "ключ",
    "杭州",
    "\u007f\u0085\U0001d11e",
    "杭" * 50,
    "a b'\"",
    "x" * 160,
    "",
    None,
    "__HIVE_DEFAULT_PARTITION__",
]


@pytest.mark.parametrize("table_format", FORMATS)
def test_any_value_may_name_a_partition_and_none_leaves_the_folder(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path / "in" / "a t", tableFormat=table_format, partitionBy="storeDay,tags")
    sent = [message(number, tags=tags) for number, tags in enumerate(ODD)]
    query.run(sent)
    rows = {row["queueOffset"]: row["tags"] for row in table_rows(tmp_path / "in" / "a t")}
    # An empty text is null as a partition, in Hive and Delta; Iceberg keeps the value in the file.
    assert [rows[number] or None for number in range(len(ODD))] == [tags or None for tags in ODD]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a t"]


def test_other_readers_undo_our_escapes(tmp_path: Path) -> None:
    values = [value for value in ODD if value and value != HIVE_NULL]
    Query(tmp_path / "t", partitionBy="tags").run([message(n, tags=tags) for n, tags in enumerate(values)])
    files = f"{tmp_path}/t/*/*.parquet"
    query = (
        f"select queueOffset, tags from read_parquet('{files}', hive_partitioning=true, hive_types={{'tags': varchar}})"
    )
    assert dict(duckdb.sql(query).fetchall()) == dict(enumerate(values))
    frame = pd.read_parquet(tmp_path / "t")
    assert dict(zip(frame["queueOffset"], frame["tags"].astype(str), strict=True)) == dict(enumerate(values))


def test_a_value_too_long_for_a_folder_makes_a_dead_letter(tmp_path: Path) -> None:
    query = Query(tmp_path / "t", partitionBy="tags")
    query.run([message(0, tags="x" * 161), message(1), message(2, tags="я" * 81)])
    assert [row["queueOffset"] for row in table_rows(tmp_path / "t")] == [1]
    dead = table_rows(tmp_path / "t__dlq")
    assert sorted(row["queueOffset"] for row in dead) == [0, 2]
    assert {row["dlqReason"] for row in dead} == {"the value of partition column 'tags' is longer than 160 bytes"}


@pytest.mark.parametrize("table_format", FORMATS)
def test_partitions_by_number_and_day(tmp_path: Path, table_format: str) -> None:
    midnight = DAY.replace(hour=0)
    times = [midnight - datetime.timedelta(microseconds=1), midnight, None]
    sent = [message(n, queue=n % 2, storeTimestamp=times[n % 3]) for n in range(12)]
    Query(tmp_path / "t", tableFormat=table_format, partitionBy="queueId,storeDay").run(sent)
    rows = table_rows(tmp_path / "t")
    assert places(rows) == places(sent)
    days = {row["queueOffset"]: row["storeDay"] for row in rows}
    assert [str(days[n]) for n in range(3)] == ["2026-11-20", "2026-11-21", "None"]


def test_names_of_folders() -> None:
    assert str(partition_folder((("storeDay", "2026-11-21"), ("tags", "a/b")))) == "storeDay=2026-11-21/tags=a%2Fb"
    assert safe_name("..") == "%2E%2E"
    assert safe_name("城市 é:%") == "城市%20é%3A%25"
    assert str(ascii_folder((("城", "é/"),))) == "_E5_9F_8E=_C3_A9_2F"
    topics = ("orders", "_x", "%RETRY%g", "a|b", ".~")
    assert [topic_folder(topic) for topic in topics] == ["orders", "~5Fx", "~25RETRY~25g", "a~7Cb", "~2E~7E"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_table_for_each_topic(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path, tableFormat=table_format, tableLayout="topic", bodyFormat="json", bodySchema="id int")
    topics = ["orders", "_hidden", "%RETRY%g"]
    sent = [message(n, topic=topic, body=b'{"id": 1}') for n in range(3) for topic in topics]
    query.run(sent, [message(3, topic="orders", body=b"bad")])
    for topic in topics:
        rows = table_rows(tmp_path / topic_folder(topic))
        assert places(rows) == places([row for row in sent if row["topic"] == topic])
    assert places(table_rows(tmp_path / "orders__dlq")) == [("orders", 0, 3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "orders__dlq", "~25RETRY~25g", "~5Fhidden"]


def test_a_topic_that_is_named_like_a_dead_letter_table_is_refused(tmp_path: Path) -> None:
    query = Query(tmp_path, tableLayout="topic", bodyFormat="json", bodySchema="id int")
    query.run([message(0, body=b"bad")])
    with pytest.raises(UsageError, match="has 'dead letters', the option 'path' means 'rows'"):
        query.run([message(0, topic="orders__dlq", body=b'{"id": 1}')])


def test_rows_of_any_columns_are_taken_and_numbers_are_stored_wide(tmp_path: Path) -> None:
    schema = parse_ddl("year int, dep float, tags string, nested struct<a: array<smallint>>, at timestamp_ntz")
    row = {"year": 2013, "dep": 1.5, "tags": "A", "nested": {"a": [1]}, "at": DAY.replace(tzinfo=None)}
    for table_format in FORMATS:
        Query(tmp_path / table_format, schema=schema, tableFormat=table_format, partitionBy="tags").run([row])
        assert table_rows(tmp_path / table_format) == [row]
    fields = {field.name: str(field.type) for field in ds.dataset(tmp_path / "parquet").schema}
    assert fields["year"] == "int64"
    assert fields["dep"] == "double"
    assert "item: int64" in fields["nested"] or "element: int64" in fields["nested"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_times_of_ones_own_columns_outside_the_years_1_to_9999_go_to_the_dead_letters(
    tmp_path: Path, table_format: str
) -> None:
    schema = parse_ddl("id int, at timestamp, day date, inner struct<days: array<date>>")
    query = Query(tmp_path / "t", schema=schema, tableFormat=table_format, partitionBy="day")
    wanted = pa.schema([(field.name, field.type) for field in arrow(stream_columns(schema))])
    year_0 = -62_135_625_600_000_000
    columns = [
        pa.array([0, 1, 2, 3]),
        pa.array([0, year_0, 0, 0]).view(wanted.field("at").type),
        pa.array([0, 0, 3_000_000, 0], pa.int32()).view(pa.date32()),
        pa.StructArray.from_arrays(
            [pa.ListArray.from_arrays([0, 1, 1, 1, 3], pa.array([0, 0, -800_000], pa.int32()).view(pa.date32()))],
            ["days"],
        ),
    ]
    batch = pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, wanted, strict=True)], schema=wanted)
    parts = [batch.slice(0, 3), batch.slice(3)]
    query.commit([query.task_of(parts)])
    query.commit([query.task_of([batch])])  # the same batch again, cut in another way
    assert [row["id"] for row in table_rows(tmp_path / "t")] == [0]
    dead = {row["id"]: row for row in table_rows(tmp_path / "t__dlq")}
    said = "has a time outside the years 1 to 9999:"
    assert dead[1]["dlqReason"] == f"column 'at' {said} 0000-12-31 16:00:00.000000Z"
    assert dead[2]["dlqReason"] == f"column 'day' {said} 10183-09-21"
    assert f"column 'inner' {said}" in dead[3]["dlqReason"]
    assert "1970-01-01, -0221-09-04" in dead[3]["dlqReason"]
    assert (dead[1]["at"], dead[2]["day"], dead[3]["inner"]) == (None, None, None)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "none"])
def test_files_are_cut_at_the_wanted_size(tmp_path: Path, compression: str) -> None:
    query = Query(tmp_path / "t", compression=compression, targetFileBytes="65536")
    sent = [message(n, body=os.urandom(40_000)) for n in range(4)]
    written = query.task(sent)
    assert sum(file.rows for file in written.tables[0].files) == 4
    query.commit([written])
    assert places(table_rows(tmp_path / "t")) == places(sent)


def test_a_batch_without_rows_changes_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path / "t")
    query.run([], [])
    query.run()
    assert not (tmp_path / "t").exists()


def test_a_batch_write_counts_once_by_its_number(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "t"), "txnAppId": "backfill", "txnVersion": "3"}
    for _ in range(2):
        writer: Any = RocketMQLakeDataSource(options).writer(Query(tmp_path).schema, overwrite=False)
        writer.commit([writer.write(iter([batch_of([message(0), message(1)])]))])
    assert len(table_rows(tmp_path / "t")) == 2
    writer = RocketMQLakeDataSource({"path": str(tmp_path / "t")}).writer(Query(tmp_path).schema, overwrite=False)
    writer.commit([writer.write(iter([batch_of([message(0)])]))])
    assert len(table_rows(tmp_path / "t")) == 3


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_reader_gives_a_users_columns_in_their_order(tmp_path: Path, table_format: str) -> None:
    Query(tmp_path / "t", tableFormat=table_format, partitionBy="tags").run([message(0), message(1, tags="B")])
    schema = parse_ddl("body binary, tags string, queueOffset bigint")
    reader = LakeReader({"path": str(tmp_path / "t")}, schema)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(rows, key=lambda row: row["tags"]) == [
        {"body": b"x", "tags": "A", "queueOffset": 0},
        {"body": b"x", "tags": "B", "queueOffset": 1},
    ]
    assert list(rows[0]) == ["body", "tags", "queueOffset"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "'path' is missing"),
        ({"path": "relative"}, "no absolute folder"),
        ({"path": "hdfs://host/t"}, "another file system"),
        ({"path": "s3://bucket"}, "names no folder"),
        ({"path": "s3://bucket/../t"}, "take that for a url"),
        ({"path": "s3://bucket/t", "tableFormat": "iceberg"}, "needs a catalog"),
        ({"path": "s3://bucket/t", "s3.secret-access-key": "the-secret"}, r"env:NAME[^*]*(?!the-secret)$"),
        ({"path": "s3://bucket/t", "catalog.type": "sql", "catalog.uri": "sqlite://"}, "is of format delta"),
        ({"path": "/t", "tableFormat": "iceberg", "catalog.type": "hadoop"}, "one of rest, sql"),
        ({"path": "/t", "tableFormat": "iceberg", "catalog.type": "rest"}, "'catalog.uri' is missing"),
        ({"path": "s3://bucket/t", "s3.request-timeout": "soon"}, "1 to 3600"),
        ({"path": "s3://bucket/t", "s3.endpoint": "store:9000"}, "https://"),
        ({"tableFormat": "delta", "path": "/a%20b"}, "takes it for a URI"),
        ({"tableFormat": "hudi"}, "one of parquet, delta, iceberg"),
        ({"tableformat": "delta", "TABLEFORMAT": "iceberg"}, "given twice"),
        ({"partionBy": "x"}, "did you mean 'partitionBy'"),
        ({"format": "delta"}, "use 'tableFormat'"),
        ({"partitionBy": "none_such"}, "no column of the table"),
        ({"partitionBy": "properties"}, "cannot name partitions"),
        ({"partitionBy": "tags,TAGS"}, "each column once"),
        ({"bodySchema": "a int"}, "belongs to bodyFormat = json"),
        ({"bodyFormat": "avro"}, "needs option 'avroSchema'"),
        ({"bodyFormat": "protobuf", "protobufDescriptor": "/x"}, "needs option 'protobufMessage'"),
        ({"bodyFormat": "json", "bodySchema": "a whole"}, "expects a type"),
        ({"bodyFormat": "json", "bodySchema": "m map<int, int>"}, "keys of JSON objects"),
        ({"bodyFormat": "json", "bodySchema": "a interval"}, "expects a type"),
        ({"onBadRecord": "ignore"}, "one of dlq, fail, skip"),
        ({"txnAppId": "x"}, "belongs to a batch write"),
        ({"maxPartitions": "0"}, "from 1 to 10000"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Query(tmp_path / "t", **options).writer()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("ddl", "options", "said"),
    [
        ("body binary", {"tableLayout": "topic"}, "needs the column 'topic'"),
        ("topic string", {"bodyFormat": "json"}, "needs the column 'body'"),
        ("tags string, TAGS string", {}, "two columns"),
        ("tags string", {"partitionBy": "storeDay"}, "is made of 'storeTimestamp'"),
        ("tags string", {"partitionBy": "tags"}, "names all columns"),
        ("dlqReason string, body binary", {}, "rename it"),
        ("id int, body binary", {"bodyFormat": "json", "bodySchema": "id int"}, "second column of that name"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_written(
    tmp_path: Path, ddl: str, options: dict[str, str], said: str
) -> None:
    schema: StructType = parse_ddl(ddl)
    with pytest.raises(UsageError, match=said):
        Query(tmp_path / "t", schema=schema, **options).writer()


def test_batch_options_belong_together() -> None:
    with pytest.raises(UsageError, match="belong together"):
        parse_options({"path": "/t", "txnAppId": "x"}, streaming=False)
    with pytest.raises(UsageError, match="letters, digits"):
        parse_options({"path": "/t", "txnAppId": "a/b", "txnVersion": "1"}, streaming=False)


def test_a_table_is_not_replaced_and_keeps_its_ways(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only appends"):
        RocketMQLakeDataSource({"path": str(tmp_path)}).streamWriter(schema=Query(tmp_path).schema, overwrite=True)
    Query(tmp_path / "t").run([message(0)])
    with pytest.raises(UsageError, match="has 'parquet', the option 'tableFormat' means 'delta'"):
        Query(tmp_path / "t", query="q-2", tableFormat="delta").run([message(1)])
    with pytest.raises(UsageError, match="has 'storeDay', the option 'partitionBy' means 'tags'"):
        Query(tmp_path / "t", query="q-2", partitionBy="tags").run([message(1)])


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_batch_write_that_failed_after_its_commit_keeps_its_rows(tmp_path: Path, table_format: str) -> None:
    options = {"path": str(tmp_path / "t"), "tableFormat": table_format}
    for number in range(3):
        writer: Any = RocketMQLakeDataSource(options).writer(Query(tmp_path).schema, overwrite=False)
        messages = [writer.write(iter([batch_of([message(number)])]))]
        writer.commit(messages)
        writer.abort(messages)
    assert len(table_rows(tmp_path / "t")) == 3


def test_of_unnamed_batch_writes_the_newest_hundred_are_remembered(memory_path: Path) -> None:
    options = {"path": str(memory_path / "t")}
    for number in range(105):
        writer: Any = RocketMQLakeDataSource(options).writer(Query(memory_path).schema, overwrite=False)
        writer.commit([writer.write(iter([batch_of([message(number)])]))])
    (*_, newest) = sorted((memory_path / "t" / "_rocketlake" / "log").glob("0*.json"))
    assert newest.read_text().count('"batch-') == 102  # its own name, the hundred before, itself
    assert len(table_rows(memory_path / "t")) == 105


def test_an_iceberg_table_forgets_old_unnamed_batch_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_table, "UNNAMED_MAX", 3)
    folder = tmp_path / "t"
    named = Query(folder, query="q-1", tableFormat="iceberg")
    named.run([message(0)])
    for number in range(1, 7):
        writer: Any = RocketMQLakeDataSource(named.options).writer(named.schema, overwrite=False)
        messages = [writer.write(iter([batch_of([message(number)])]))]
        writer.commit(messages)
        writer.commit(messages)  # as after a lost answer
    table = iceberg_table.catalog(folder).load_table(iceberg_table.TABLE)
    kept = [name for name in table.properties if name.startswith("rocketlake.query.")]
    assert sorted(name.partition("batch-")[0] for name in kept) == ["rocketlake.query."] * 4 + ["rocketlake.query.q-1"]
    assert len(table_rows(folder)) == 7


def test_the_day_is_that_of_utc_in_any_session_time_zone() -> None:
    late = pa.array([DAY.replace(hour=3)], pa.timestamp("us", "America/New_York"))
    batch = with_store_day(pa.RecordBatch.from_arrays([late], names=["storeTimestamp"]))
    assert batch.column(1).to_pylist() == [DAY.date()]
