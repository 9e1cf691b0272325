"""The Spark side of the demo: the pipeline of docs/pipelines/flights.yaml, then a report from its table.

Owns        running the pipeline, reading its table back, the hourly delay report by airport.
Must not know   producers, consumers, the broker's files; what the pipeline does stands in its file.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from demo.check import TableFacts
from demo.flights import read
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.read import read_pipeline
from rocketlake.spark.pipeline.runner import PipelineRun
from rocketlake.spark.pipeline.session import local_session
from rocketlake.spark.progress import LagListener

PIPELINE = Path(__file__).parents[1] / "docs" / "pipelines" / "flights.yaml"


def start_session(folder: Path) -> SparkSession:
    """A local Spark with two cores; its logs and scratch files go under folder."""
    return local_session("RocketLake demo", folder, master="local[2]")


class Pipeline:
    """The running pipeline."""

    def __init__(self, spark: SparkSession, namesrv: str, folder: Path) -> None:
        self._lags = LagListener()
        spark.streams.addListener(self._lags)
        environment = Environment({"NAMESRV_ADDR": namesrv, "LAKE": str(folder)})
        self._run = PipelineRun(spark, read_pipeline(PIPELINE), environment)
        self._run.start()

    @property
    def rows(self) -> int:
        """Rows of all finished micro-batches. Raises PipelineFailed if the pipeline ended."""
        self._run.check()
        return sum(lag.rows for lag in self._lags.lags().values())

    def stop(self) -> None:
        """Let the micro-batch at work end, then stop."""
        self._run.stop()


def read_table(spark: SparkSession, folder: Path) -> DataFrame:
    """The finished table, as any Spark job would read it."""
    return spark.read.parquet(str(folder / "table"))


def table_facts(table: DataFrame) -> TableFacts:
    """Count, checksum over (queue, offset, body), distinct positions, and sums to compare."""
    mark = F.crc32(F.concat(F.concat_ws(":", "queueId", "queueOffset").cast("binary"), "body"))
    row = table.agg(
        F.count("*"),
        F.sum(mark),
        F.count_distinct("brokerName", "queueId", "queueOffset"),
        F.sum("dep_delay"),
        F.count(F.when(F.col("tags") == F.col("carrier"), 1)),
    ).first()
    return TableFacts(*(row or ()))


def hourly_report(table: DataFrame) -> pd.DataFrame:
    """Departure delays per hour and airport; `local_time` is New York's."""
    local_time = F.make_timestamp_ntz("year", "month", "day", "hour", F.lit(0), F.lit(0))
    hours = table.groupBy(local_time.alias("local_time"), "origin").agg(
        F.count("*").alias("flights"),
        F.count(F.when(F.col("dep_time").isNull(), 1)).alias("cancelled"),
        F.round(F.avg("dep_delay"), 2).alias("mean_delay"),
        F.count(F.when(F.col("dep_delay") > 15, 1)).alias("late"),
    )
    names = read("airports.csv")[["faa", "name"]].rename(columns={"faa": "origin", "name": "airport"})
    columns = ["local_time", "origin", "airport", "flights", "cancelled", "late", "mean_delay"]
    return hours.toPandas().merge(names, on="origin").sort_values(["local_time", "origin"])[columns]
