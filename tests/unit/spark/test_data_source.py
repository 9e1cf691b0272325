from __future__ import annotations

import pytest

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


def test_a_table_of_the_catalogue_brings_each_option_twice_and_its_own_properties() -> None:
    """As Spark hands them over after CREATE TABLE ... USING rocketmq OPTIONS (...)."""
    options = NEEDED | {f"option.{name}": value for name, value in NEEDED.items()}
    table = {"provider": "rocketmq", "owner": "me", "path": "file:/warehouse/t"}
    assert RocketMQDataSource(options | table).schema() == full_schema()
    with pytest.raises(UsageError, match="option 'path'"):
        source(path="orders").schema()
