"""Changes of rows as Debezium writes them: which become rows, which deletes, and which are told as bad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.lake.bodies.debezium import DebeziumBodies
from rocketlake.spark.lake.options import parse_options
from tests.unit.spark.lake.conftest import Query, message, table_rows

OPTIONS = {
    "tableFormat": "delta",
    "bodyFormat": "debezium",
    "bodySchema": "id bigint, name string",
    "mergeKeys": "id",
    "mergeBuckets": "2",
}


def envelope(op: str | None, lsn: int = 0, *, schema: bool = False, **images: Any) -> bytes:
    change = {"op": op, "source": {"lsn": lsn, "db": "shop"}, "ts_ms": 1, "transaction": None} | images
    return json.dumps({"schema": {"type": "struct"}, "payload": change} if schema else change).encode()


def test_the_row_behind_creates_updates_snapshots_and_deletes(tmp_path: Path) -> None:
    query = Query(tmp_path / "t", **OPTIONS)
    changes = [
        envelope("r", 5, before=None, after={"id": 1, "name": "snapshot"}),
        envelope("c", 6, schema=True, before=None, after={"id": 2, "name": "made", "more": [1]}),
        envelope("c", 7, after={"id": 3, "name": "gone soon"}),
        envelope("u", 8, schema=True, before={"id": 1, "name": "snapshot"}, after={"id": 1, "name": "changed"}),
        envelope("d", 9, before={"id": 3}, after=None),
        None,  # the tombstone behind it
        b"",
        b"null",
    ]
    query.run([message(number, body=body) for number, body in enumerate(changes)])
    query.run([message(9, body=envelope("u", 8, after={"id": 3, "name": "late"}))])
    rows = {row["id"]: (row["name"], row["changeOp"], row["changeVersion"]) for row in table_rows(tmp_path / "t")}
    assert rows == {1: ("changed", "u", 8), 2: ("made", "c", 6)}
    assert table_rows(Path(f"{tmp_path}/t__dlq")) == []


BAD = [
    (envelope("t", 1), "the table was truncated at the source"),
    (json.dumps({"source": {}, "ddl": "ALTER TABLE", "tableChanges": []}).encode(), "a change of the schema?"),
    (envelope("m", 1), "no change of a row: 'op' is 'm'"),
    (envelope("u", 1, after=None), "a change 'u' without 'after'"),
    (envelope("d", 1, before=None), "REPLICA IDENTITY of the table"),
    (envelope("u", 1, after={"id": 1, "name": "__debezium_unavailable_value"}), "unchanged TOAST"),
    (envelope("c", 1, after={"id": "one"}), "Expected `int | null`, got `str`"),
    (b"{", "debezium: Input data was truncated"),
    (b"[]", "debezium: Expected `object`, got `array`"),
    (b'{"op": "c", "after": {"id": 1}}', "column 'changeVersion' is null"),
]


@pytest.mark.parametrize(("body", "reason"), BAD, ids=[reason[:20] for _, reason in BAD])
def test_what_is_no_change_of_a_row_is_a_dead_letter_or_stops_the_query(
    tmp_path: Path, body: bytes, reason: str
) -> None:
    rows = [message(0, body=envelope("c", 1, after={"id": 1, "name": "x"})), message(1, body=body)]
    Query(tmp_path / "t", **OPTIONS).run(rows)
    (dead,) = table_rows(Path(f"{tmp_path}/t__dlq"))
    assert (dead["body"], reason in dead["dlqReason"]) == (body, True), dead["dlqReason"]
    assert len(table_rows(tmp_path / "t")) == 1
    with pytest.raises(StoreError, match="a message cannot be stored"):
        Query(tmp_path / "strict", onBadRecord="fail", **OPTIONS).run(rows)


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ({"lsn": 24023128, "ts_ms": 3}, 24023128),
        ({"scn": "2122185"}, 2122185),
        ({"file": "mysql-bin.000003", "pos": 154}, (3 << 36) + 154),
        ({"file": "mysql-bin.000002", "pos": (1 << 32) - 1}, (2 << 36) + (1 << 32) - 1),
        ({"file": "binlog", "pos": 1}, None),
        ({"ts_ms": 3}, None),
        (None, None),
    ],
)
def test_the_version_is_the_place_in_the_log_of_the_source(source: dict[str, Any] | None, version: int | None) -> None:
    body = json.dumps({"op": "c", "after": {"id": 1}, "source": source}).encode()
    parsed = DebeziumBodies("id bigint").parse([body], lambda _: StructType())
    assert (parsed.columns["changeVersion"].to_pylist(), parsed.bad) == ([version], {})


def test_a_column_of_the_row_may_be_the_version(tmp_path: Path) -> None:
    options = OPTIONS | {"bodySchema": "id bigint, at bigint", "versionColumn": "at", "deleteWhen": "changeOp = d"}
    query = Query(tmp_path / "t", **options)
    bodies = [{"op": "c", "after": {"id": 1, "at": 3}}, {"op": "u", "after": {"id": 1, "at": 2}}]
    query.run([message(number, body=json.dumps(body).encode()) for number, body in enumerate(bodies)])
    assert [row["at"] for row in table_rows(tmp_path / "t")] == [3]


def test_the_row_must_be_declared_and_not_have_our_columns() -> None:
    with pytest.raises(UsageError, match="bodyFormat = debezium needs option 'bodySchema'"):
        parse_options({"path": "/t", "bodyFormat": "debezium"}, streaming=True)
    with pytest.raises(UsageError, match="'bodySchema' has 'changeop', which is what bodyFormat = debezium adds"):
        DebeziumBodies("id bigint, changeop string")
