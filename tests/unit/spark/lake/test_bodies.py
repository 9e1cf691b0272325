"""Bodies as columns: each format, what is bad about a bad one, how a table's columns grow."""

from __future__ import annotations

import datetime
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql.types import StructType

from rocketlake.base.errors import RocketLakeError, StoreError, UsageError
from rocketlake.spark.lake.bodies.avro import AvroBodies
from rocketlake.spark.lake.bodies.ddl import parse_ddl
from rocketlake.spark.lake.bodies.json_declared import DeclaredJson
from rocketlake.spark.lake.bodies.json_inferred import InferredJson
from rocketlake.spark.lake.bodies.parsed import BodyParser, Parsed
from rocketlake.spark.lake.bodies.protobuf import ProtobufBodies
from rocketlake.spark.lake.description import Descriptions
from tests.unit.spark.lake.conftest import Query, message, table_rows

UTC = datetime.UTC


def parse(parser: BodyParser, *bodies: bytes | None) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Rows and bad ones, the table agreeing to every column."""
    known: list[StructType] = [parser.fields]

    def grow(wanted: StructType) -> StructType:
        known[0] = StructType([*known[0].fields, *wanted.fields])
        return known[0]

    return rows_of(parser.parse(bodies, grow))


def rows_of(parsed: Parsed) -> tuple[list[dict[str, Any]], dict[int, str]]:
    names = list(parsed.columns)
    values = zip(*(parsed.columns[name].to_pylist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in values], parsed.bad


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("more", [{}, {"partitionBy": "none"}])
def test_a_frame_of_bodies_alone_gets_all_columns_by_inference(
    tmp_path: Path, table_format: str, more: dict[str, str]
) -> None:
    schema = parse_ddl("body binary")
    query = Query(tmp_path / "t", schema=schema, tableFormat=table_format, bodyFormat="json", **more)
    query.run([{"body": b"no json"}, {"body": b"{}"}])
    query.run([{"body": b'{"id": 1}'}, {"body": b'{"id": 2, "name": "b"}'}])
    query.run([{"body": b'{"id": 3}'}])
    rows = sorted(table_rows(tmp_path / "t"), key=lambda row: row["id"])
    assert rows == [{"id": 1, "name": None}, {"id": 2, "name": "b"}, {"id": 3, "name": None}]
    dead = {row["body"]: row["dlqReason"] for row in table_rows(tmp_path / "t__dlq")}
    assert sorted(dead) == [b"no json", b"{}"]
    assert "no column yet" in dead[b"{}"]


YEAR_0 = "0001-01-01T00:00:00+08:00"


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_time_outside_the_years_1_to_9999_is_a_bad_value(tmp_path: Path, table_format: str, kind: str) -> None:
    schema = f"at {kind}, list array<{kind}>, by map<string, {kind}>, in struct<at: {kind}>"
    query = Query(tmp_path / "t", tableFormat=table_format, bodyFormat="json", bodySchema=schema)
    early, late = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
    beyond = "9999-12-31T23:59:59-01:00"
    good = {"at": early, "list": [late, None], "by": {"a": early}, "in": {"at": late}}
    bad: list[dict[str, Any]] = [{"at": YEAR_0}, {"at": beyond}, {"list": [early, YEAR_0]}]
    bad += [{"by": {"a": early, "b": beyond}}, {"in": {"at": YEAR_0}}]
    bodies = [good, *bad, good]
    query.run([message(number, body=json.dumps(body).encode()) for number, body in enumerate(bodies)])
    assert sorted(row["queueOffset"] for row in table_rows(tmp_path / "t")) == [0, 6]
    dead = {row["queueOffset"]: row for row in table_rows(tmp_path / "t__dlq")}
    assert {number: json.loads(row["body"]) for number, row in dead.items()} == dict(enumerate(bad, start=1))
    assert all("outside the years 1 to 9999" in row["dlqReason"] for row in dead.values())


def test_dates_of_avro_and_times_of_protobuf_outside_the_years_are_bad_values() -> None:
    fields = [
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    raw = schema | {"fields": [field | {"type": field["type"]["type"]} for field in fields]}  # type: ignore[index]
    bodies = []
    for values in ((0, 0, 0), (-62_135_625_600_000_000, 0, 0), (0, 2**62, 0), (0, 0, -800_000)):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, raw, dict(zip("tld", values, strict=True)))
        bodies.append(out.getvalue())
    rows, bad = parse(AvroBodies(json.dumps(schema)), *bodies)
    assert [row["d"] for row in rows] == [datetime.date(1970, 1, 1)]
    assert list(bad) == [1, 2, 3]


def test_a_column_list_is_read_as_spark_reads_it() -> None:
    text = "a int, `b c` decimal(10,2) not null comment 'x, y', s struct<x: array<int>, m: map<string, double>>"
    schema = parse_ddl(text + ", t timestamp")
    assert schema.simpleString() == (
        "struct<a:int,b c:decimal(10,2),s:struct<x:array<int>,m:map<string,double>>,t:timestamp>"
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "character 1"),
        ("a", "character 2"),
        ("a int,", "character 7"),
        ("a int b", "character 7"),
        ("a array<int", "character 12"),
        ("a whole", "character 3"),
        ("a decimal(99)", "a decimal of 1 to 38"),
        ("a int, ; drop", "character 7"),
        ("a " + "array<" * 60, "fewer types"),
    ],
)
def test_a_wrong_column_list_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(UsageError, match=where):
        parse_ddl(text)


def test_declared_json_of_every_type() -> None:
    parser = DeclaredJson(
        "i int, f float, s string, b boolean, d date, t timestamp, n timestamp_ntz, dec decimal(6,2), raw binary, "
        "l array<int>, m map<string, timestamp>, o struct<class: string, `from`: array<struct<x: int>>>"
    )
    body = {
        "i": 7, "f": 1, "s": "x", "b": True, "d": "2026-11-21", "t": "2026-11-21T12:00:00", "n": "2026-11-21T12:00:00Z",
        "dec": 1.25, "raw": "eHk=", "l": [1, None], "m": {"k": "2026-11-21T12:00:00+02:00"},
        "o": {"class": "c", "from": [{"x": 1}]}, "not declared": {},
    }  # fmt: skip
    rows, bad = parse(parser, json.dumps(body).encode(), b"{}", b'{"i": null}')
    assert not bad
    noon = datetime.datetime(2026, 11, 21, 12)
    assert rows[0] == {
        "i": 7, "f": 1.0, "s": "x", "b": True, "d": noon.date(), "t": noon.replace(tzinfo=UTC), "n": noon,
        "dec": Decimal("1.25"), "raw": b"xy", "l": [1, None],
        "m": [("k", noon.replace(hour=10, tzinfo=UTC))], "o": {"class": "c", "from": [{"x": 1}]},
    }  # fmt: skip
    assert set(rows[1].values()) == set(rows[2].values()) == {None}
    assert {field.name: field.dataType.simpleString() for field in parser.fields}["i"] == "bigint"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "json"),
        (b"", "json"),
        (b"{", "json"),
        (b"[1]", "json"),
        (b"null", "json"),
        (b'{"i": "1"}', r"\$.i"),
        (b'{"i": 1.5}', r"\$.i"),
        (b'{"i": 9223372036854775808}', r"\$.i"),
        (b'{"dec": 123456789}', "dec"),
        (b'{"i": 1} {"i": 2}', "json"),
        (b'{"s": "\xff"}', "json"),
        (b'{"a":' * 100_000, "json"),
    ],
)
def test_a_json_body_that_does_not_fit_is_bad_and_alone(body: bytes | None, reason: str) -> None:
    rows, bad = parse(DeclaredJson("i bigint, dec decimal(6,2), s string"), b'{"i": 1}', body, b'{"i": 2}')
    assert [row["i"] for row in rows] == [1, 2]
    assert list(bad) == [1]
    assert re.search(reason, bad[1])


def test_inferred_json_takes_what_most_rows_have() -> None:
    bodies = [
        {"a": 1, "b": 1, "c": "x", "o": {"k": [1]}, "topic": "t", "with space": True},
        {"a": 2, "b": 1.5, "c": 5, "o": None, "n": None},
        {"a": 3, "c": "y", "l": [1, "2"]},
    ]
    rows, bad = parse(InferredJson(), *(json.dumps(body).encode() for body in bodies))
    assert rows == [
        {"a": 1, "b": 1.0, "c": "x", "l": None, "o": '{"k":[1]}', "body_topic": "t", "with_space": True},
        {"a": 3, "b": None, "c": "y", "l": '[1,"2"]', "o": None, "body_topic": None, "with_space": None},
    ]
    assert list(bad) == [1]
    assert "field 'c' is bigint, the column c string" in bad[1]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (b'{"id": 1}', b'{"ID": 1}', "field 'ID' can have no column of its own"),
        (b'{"a b": 1}', b'{"a_b": 1}', "field 'a_b' can have no column"),
        (b'{"id": 1}', b'{"id": 1.5}', "field 'id' is double, the column id bigint"),
        (b'{"id": true}', b'{"id": 1}', "field 'id' is bigint, the column id boolean"),
        (b'{"id": 1}', b'{"id": 9223372036854775808}', "field 'id' does not fit int64"),
        (b'{"id": 1.5}', b'{"id": 9007199254740993}', "field 'id' does not fit double"),
        (b'{"id": "x"}', b'{"id": "\\ud800"}', "json"),
    ],
)
def test_a_later_body_of_another_shape_is_a_dead_letter(
    tmp_path: Path, first: bytes, second: bytes, reason: str
) -> None:
    query = Query(tmp_path / "t", bodyFormat="json")
    query.run([message(0, body=first)])
    query.run([message(1, body=second), message(2, body=first)])
    assert sorted(row["queueOffset"] for row in table_rows(tmp_path / "t")) == [0, 2]
    (dead,) = table_rows(tmp_path / "t__dlq")
    assert (dead["queueOffset"], dead["body"]) == (1, second)
    assert dead["dlqReason"].startswith(reason)


def test_new_fields_become_columns_old_rows_have_null(tmp_path: Path) -> None:
    query = Query(tmp_path / "t", bodyFormat="json")
    query.run([message(0, body=b'{"id": 1}')])
    query.run([message(1, body=b'{"id": 2, "name": "x"}')], [message(0, queue=1, body=b'{"name": "y", "n": 1.5}')])
    rows = sorted(table_rows(tmp_path / "t"), key=lambda row: (row["queueId"], row["queueOffset"]))
    assert [(row["id"], row["name"], row["n"]) for row in rows] == [(1, None, None), (2, "x", None), (None, "y", 1.5)]
    plain = f"select id, name, n from read_parquet('{tmp_path}/t/**/*.parquet', union_by_name=true)"
    assert sorted(duckdb.sql(plain).fetchall(), key=str) == [(1, None, None), (2, "x", None), (None, "y", 1.5)]


def test_columns_have_a_limit(tmp_path: Path) -> None:
    query = Query(tmp_path / "t", bodyFormat="json")
    query.run([message(0, body=json.dumps({f"f{n}": 1 for n in range(3000)}).encode()), message(1, body=b'{"f0": 1}')])
    assert [row["queueOffset"] for row in table_rows(tmp_path / "t")] == [1]
    latest = Descriptions(tmp_path / "t").latest()
    assert latest is not None and len(latest.schema.fields) == 2000


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("a int", "a bigint", "ok"),
        ("a float", "a double", "ok"),
        ("a bigint", "a int", "ok"),
        ("a array<int>", "a array<bigint>", "ok"),
        ("a int", "a int, b string", "ok"),
        ("a int, b string", "a int", "ok"),
        ("a int", "a double", "column 'a' is bigint in the table, now double"),
        ("a int", "a string", "column 'a' is bigint in the table, now string"),
        ("a struct<x: int>", "a struct<x: int, y: int>", "column 'a' is struct"),
        ("a int", "A int", "only by case"),
    ],
)
def test_a_declared_schema_grows_by_columns_and_wider_numbers(
    tmp_path: Path, table_format: str, before: str, after: str, outcome: str
) -> None:
    values = {"array<int>": b"[1]", "array<bigint>": b"[4294967296]", "float": b"1.5", "double": b"2.5"}
    values |= {"int": b"1", "bigint": b"4294967296"}
    body = {ddl: b'{"a": ' + values.get(ddl.split(",")[0][2:], b"null") + b"}" for ddl in (before, after)}
    Query(tmp_path / "t", tableFormat=table_format, bodyFormat="json", bodySchema=before).run(
        [message(0, body=body[before])]
    )
    later = Query(tmp_path / "t", tableFormat=table_format, bodyFormat="json", bodySchema=after)
    later.next_batch = 1
    if outcome == "ok":
        later.run([message(1, body=body[after])])
        rows = {row["queueOffset"]: row["a"] for row in table_rows(tmp_path / "t")}
        assert rows == {0: json.loads(body[before])["a"], 1: json.loads(body[after])["a"]}
    else:
        with pytest.raises(RocketLakeError, match=outcome):
            later.run([message(1, body=body[after])])
        assert len(table_rows(tmp_path / "t")) == 1


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": ["null", "float"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}}]}}},
        {"name": "more", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "first", "type": ["null", "Line"]},
    ],
}  # fmt: skip


def test_avro(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    noon = datetime.datetime(2026, 11, 21, 12, tzinfo=UTC)
    uid = "12345678-1234-5678-1234-567812345678"
    line = {"sku": "a", "uid": uid}
    order = {
        "id": 1, "price": 1.5, "at": noon, "kind": "SELL", "sum": Decimal("12.34"), "lines": [line],
        "more": {"k": 1, "n": None}, "first": line,
    }  # fmt: skip
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), order)
    body = stream.getvalue()
    for schema in (str(tmp_path / "order.avsc"), json.dumps(AVRO)):
        rows, bad = parse(AvroBodies(schema), body, body[:-3], body + b"x", b"", None)
        assert rows == [order | {"more": [("k", 1), ("n", None)]}]
        assert sorted(bad) == [1, 2, 3, 4]
        assert "left over" in bad[2]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("/does/not/exist.avsc", "cannot be read"),
        ("{", "no Avro schema"),
        ('{"type": "string"}', "no record"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]}', "union of several"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}', "contains itself"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "whole"}]}', "no Avro schema"),
    ],
)
def test_a_wrong_avro_schema_is_refused(schema: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        AvroBodies(schema)


def proto_file(folder: Path) -> Path:
    """message Order { uint64 id; optional float price; Kind kind; Timestamp at; repeated Line lines; map<..> more; }"""
    from google.protobuf import timestamp_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="BUY", number=0)
    kind.value.add(name="SELL", number=1)
    line = file.message_type.add(name="Line")
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="MoreEntry")
    entry.options.map_entry = True
    field = descriptor_pb2.FieldDescriptorProto

    def add(owner: Any, name: str, number: int, kind: int, type_name: str = "", **more: Any) -> None:
        named = {"type_name": type_name} if type_name else {}
        owner.field.add(name=name, number=number, type=kind, **({"label": 1} | named | more))

    add(line, "sku", 1, field.TYPE_STRING)
    add(line, "n", 2, field.TYPE_SINT32)
    add(entry, "key", 1, field.TYPE_STRING)
    add(entry, "value", 2, field.TYPE_BYTES)
    add(order, "id", 1, field.TYPE_UINT64)
    order.oneof_decl.add(name="_price")
    add(order, "price", 2, field.TYPE_FLOAT, proto3_optional=True, oneof_index=0)
    add(order, "kind", 3, field.TYPE_ENUM, ".shop.Kind")
    add(order, "at", 4, field.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add(order, "lines", 5, field.TYPE_MESSAGE, ".shop.Line", label=3)
    add(order, "more", 6, field.TYPE_MESSAGE, ".shop.Order.MoreEntry", label=3)
    add(order, "first", 7, field.TYPE_MESSAGE, ".shop.Line")
    loop = file.message_type.add(name="Loop")
    add(loop, "again", 1, field.TYPE_MESSAGE, ".shop.Loop")
    whole = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(whole.file.add())
    whole.file.append(file)
    (folder / "shop.desc").write_bytes(whole.SerializeToString())
    return folder / "shop.desc"


def test_protobuf(tmp_path: Path) -> None:
    file = proto_file(tmp_path)
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file:
        pool.Add(each)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    order.id, order.price, order.kind = 2**64 - 1, 1.5, 1
    order.at.FromJsonString("2026-11-21T12:00:00Z")
    order.lines.add(sku="a", n=-1)
    order.more["k"] = b"\xff"
    rows, bad = parse(
        ProtobufBodies(str(file), "shop.Order"), order.SerializeToString(), b"", b"\xff", None, b"\x18\x07"
    )
    empty = {"id": 0, "price": None, "kind": "BUY", "at": None, "lines": [], "more": [], "first": None}
    assert rows == [
        {
            "id": Decimal(2**64 - 1), "price": 1.5, "kind": "SELL", "lines": [{"sku": "a", "n": -1}],
            "at": datetime.datetime(2026, 11, 21, 12, tzinfo=UTC), "more": [("k", b"\xff")], "first": None,
        },
        empty,
        empty | {"kind": "7"},
    ]  # fmt: skip
    assert sorted(bad) == [2, 3]


@pytest.mark.parametrize(("message_name", "said"), [("shop.None", "has no message"), ("shop.Loop", "contains itself")])
def test_a_wrong_protobuf_message_is_refused(tmp_path: Path, message_name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ProtobufBodies(str(proto_file(tmp_path)), message_name)
    with pytest.raises(UsageError, match="no descriptor set"):
        ProtobufBodies(str(tmp_path / "none"), message_name)


def test_what_becomes_of_bad_records_is_an_option(tmp_path: Path) -> None:
    rows = [message(0, body=b"{"), message(1, body=b'{"id": 1}')]
    options = {"bodyFormat": "json", "bodySchema": "id int"}
    Query(tmp_path / "skip", onBadRecord="skip", **options).run(rows)
    assert [row["queueOffset"] for row in table_rows(tmp_path / "skip")] == [1]
    assert not (tmp_path / "skip__dlq").exists()
    with pytest.raises(StoreError, match="topic orders, brokerName broker-a, queueId 0, queueOffset 0"):
        Query(tmp_path / "fail", onBadRecord="fail", **options).run(rows)
    assert not list((tmp_path / "fail").rglob("b0*"))


def test_the_raw_body_may_stay_beside_its_fields(tmp_path: Path) -> None:
    Query(tmp_path / "t", bodyFormat="json", includeBody="true").run([message(0, body=b'{"id": 1}')])
    (row,) = table_rows(tmp_path / "t")
    assert (row["body"], row["id"]) == (b'{"id": 1}', 1)
