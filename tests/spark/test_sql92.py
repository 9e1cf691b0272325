"""One SQL92 filter in three engines: Spark SQL, Arrow and the evaluator agree, row by row."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_evaluate import evaluate
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_tree import Expression
from rocketlake.spark.predicate.to_arrow import arrow_mask
from rocketlake.spark.predicate.to_spark import spark_column
from tests.sql92_cases import random_expression, random_message

RANDOM = Random(404)
MESSAGES = [random_message(RANDOM) for _ in range(200)]


def random_expressions(count: int) -> list[Expression]:
    found: list[Expression] = []
    while len(found) < count:
        with suppress(UsageError):
            found.append(parse_sql92(random_expression(RANDOM)))
    return found


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    data = [(number, message) for number, message in enumerate(MESSAGES)]
    return spark.createDataFrame(data, "number int, properties map<string,string>").coalesce(1)


def assert_agreement(rows: DataFrame, expressions: list[Expression]) -> None:
    """One query: a row a message, a column an expression."""
    columns = [spark_column(expression) for expression in expressions]
    by_spark = [row.all for row in rows.sort("number").select(F.array(*columns).alias("all")).collect()]
    in_arrow = pa.array([list(message.items()) for message in MESSAGES], pa.map_(pa.string(), pa.string()))
    for n, expression in enumerate(expressions):
        wanted = [evaluate(expression, message) for message in MESSAGES]
        assert arrow_mask(expression, in_arrow).to_pylist() == wanted, expression.text
        assert [row[n] for row in by_spark] == wanted, expression.text


@pytest.mark.parametrize(("mode", "count"), [("NO_CODEGEN", 30), ("CODEGEN_ONLY", 5)])
def test_three_engines_agree(rows: DataFrame, mode: str, count: int) -> None:
    """Interpreted, which starts at once, and compiled."""
    rows.sparkSession.conf.set("spark.sql.codegen.factoryMode", mode)
    rows.sparkSession.conf.set("spark.sql.codegen.wholeStage", mode != "NO_CODEGEN")
    try:
        assert_agreement(rows, random_expressions(count))
    finally:
        rows.sparkSession.conf.unset("spark.sql.codegen.factoryMode")
        rows.sparkSession.conf.unset("spark.sql.codegen.wholeStage")


def test_nested_expressions_make_plans_that_end(rows: DataFrame) -> None:
    """A plan that names a side twice would have 2**24 nodes."""
    assert_agreement(rows, [parse_sql92("(a IS NULL)" + step * 24) for step in (" = b", " = (b > 5)", " IS NULL")])


def test_as_a_filter_on_a_column_of_another_name(rows: DataFrame) -> None:
    expression = parse_sql92("b > 5 OR TAGS IS NULL")
    renamed = rows.withColumnRenamed("properties", "p")
    kept = renamed.filter(spark_column(expression, "p")).sort("number").collect()
    also = renamed.filter(spark_column(expression, renamed.p)).sort("number").collect()
    assert [row.number for row in kept] == [n for n, message in enumerate(MESSAGES) if evaluate(expression, message)]
    assert kept == also
