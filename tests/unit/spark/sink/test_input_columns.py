from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from rocketlake.base.errors import UsageError
from rocketlake.spark.schema import COLUMNS as SOURCE_COLUMNS
from rocketlake.spark.schema import full_schema
from rocketlake.spark.sink.input_columns import COLUMNS, LEFT_OUT, check_columns

TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "void": NullType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(text: str) -> StructType:
    """Names and types, as SQL writes them (its own parser needs a JVM)."""
    pairs = [part.split() for part in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def test_columns_are_found_by_name_in_any_order_and_case() -> None:
    columns = check_columns(
        schema("keys string, BODY string, properties map<string,string>, queueid int, brokerName string"), "T"
    )
    assert columns.places == {"keys": 0, "body": 1, "properties": 2, "queueId": 3, "brokerName": 4}
    assert "tags" not in columns


def test_rows_of_the_source_can_be_written_as_they_are() -> None:
    columns = check_columns(full_schema(), "")
    assert set(columns.places) == set(SOURCE_COLUMNS) - LEFT_OUT
    assert set(columns.places) == set(COLUMNS)


def test_a_column_of_nulls_only_is_taken() -> None:
    assert "tags" in check_columns(schema("body string, tags void"), "T")


@pytest.mark.parametrize(
    ("columns", "topic", "why"),
    [
        ("id int, name string", "T", "column 'id' is not known.*to_json"),
        ("keys string", "T", "no column 'body'.*to_json"),
        ("body int", "T", "'body' is int, not binary or string.*cast"),
        ("body string, tags array<string>", "T", "'tags' is array<string>, not string"),
        ("body string, properties map<string,int>", "T", "'properties' is map<string,int>"),
        ("body string, properties string", "T", "'properties' is string"),
        ("body string, delayLevel string", "T", "'delayLevel' is string, not int"),
        ("body string", "", "no topic.*option 'topic'"),
        ("body string, queueId int", "T", "belong together"),
    ],
)
def test_what_cannot_be_is_refused_when_the_query_is_planned(columns: str, topic: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_columns(schema(columns), topic)
