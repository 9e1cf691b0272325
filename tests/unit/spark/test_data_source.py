from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.data_source import RocketMQDataSource
from rocketlake.spark.schema import CORE, chosen_schema, full_schema
from rocketlake.spark.source.batch_reader import RocketMQBatchReader

NEEDED = {"namesrvAddr": "h:1", "subscribe": "T", "startingOffsets": "earliest"}


def source(**given: str) -> RocketMQDataSource:
    return RocketMQDataSource(NEEDED | given)


def test_the_schema_is_what_the_options_choose() -> None:
    assert source().schema() == full_schema()
    assert tuple(source(columns="core").schema().names) == CORE
    assert source(columns="BODY, queueid").schema().names == ["body", "queueId"]
    assert source(columns="body,properties", includeProperties="false").schema().names == ["body"]
    with pytest.raises(UsageError, match="there is no column 'bodies'"):
        source(columns="bodies").schema()


def test_a_misspelt_option_is_named_when_spark_asks_for_the_schema() -> None:
    with pytest.raises(UsageError, match="did you mean 'startingOffsets'"):
        source(startingOffset="earliest").schema()


def test_columns_may_be_given_once_only() -> None:
    own = chosen_schema("body,queueOffset")
    assert source().streamReader(own) is not None
    assert source(columns="core").reader(chosen_schema("core")) is not None  # what a table in the catalogue passes on
    for given in ({"columns": "core"}, {"includeProperties": "false"}):
        with pytest.raises(UsageError, match="given twice"):
            source(**given).reader(own)


def test_a_reader_takes_no_filters_unless_the_planner_asks() -> None:
    assert type(source().reader(full_schema())) is RocketMQBatchReader


def test_a_table_of_the_catalogue_is_read_with_the_options_it_was_made_with() -> None:
    """As Spark hands them over: all when the table is made, none when it is read, its schema through the catalogue."""
    made = NEEDED | {"columns": "core"}
    table = {"provider": "rocketmq", "owner": "me", "comment": "orders"}
    new = RocketMQDataSource(made | {f"option.{name}": value for name, value in made.items()} | table)
    kept = StructType.fromJson(json.loads(new.schema().json()))
    assert tuple(kept.names) == CORE
    reader = RocketMQDataSource({}).reader(kept)
    assert reader._options == source().reader(full_schema())._options
    later = RocketMQDataSource({"SUBSCRIBE": "other"}).streamReader(kept)
    assert later._options.topics.names == ("other",)
    with pytest.raises(UsageError, match="'namesrvAddr' is missing"):
        RocketMQDataSource({}).reader(full_schema())
    with pytest.raises(UsageError, match="option 'path'"):
        source(path="orders").schema()


def test_insert_into_a_table_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="INSERT INTO") as refused:
        RocketMQDataSource({}).writer(StructType().add("body", "binary"), overwrite=False)
    assert "df.write" in refused.value.hint
