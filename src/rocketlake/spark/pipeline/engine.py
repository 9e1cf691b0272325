"""A pipeline in Spark: one DataFrame per route, one query each.

Owns        reading the source, the views, the rows of each route, starting the queries.
Must not know   YAML, the command line, the meaning of formats' options.

Formats are named, never imported. Each route reads the source by itself, so that each query has offsets and a
checkpoint of its own and a slow sink delays no other route.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.bodies import REASON, bad_rows, good_rows, refuse_bad_rows, with_bodies
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.model import BAD_ROWS, Pipeline, Route, Sink
from rocketlake.spark.pipeline.spark_errors import explained, explained_sql
from rocketlake.spark.progress.lag import METRICS

__all__ = ["Flow", "build", "start", "write_batch"]

_TOPIC_COLUMNS = ("topic", "tags", "keys", "shardingKey", "properties", "brokerName", "queueId", "delayLevel")
"""Columns of a row that belong to its message; the others are packed into the body as JSON."""


@dataclass(frozen=True)
class Flow:
    """One query before its start: its rows and its sink."""

    name: str
    rows: DataFrame
    sink: Sink


@dataclass(frozen=True)
class Rows:
    """Rows of the source, before and after bad ones are taken out."""

    read: DataFrame
    good: DataFrame


def build(
    spark: SparkSession, pipeline: Pipeline, environment: Environment, *, rows_max: int | None = None
) -> list[Flow]:
    """All routes, and the dead letters; nothing runs yet. UsageError if Spark does not understand a SQL text.

    `rows_max` reads so many rows of a batch source only.
    """
    hide_options(spark, pipeline)
    flows = []
    for route in pipeline.routes:
        messages = read_source(spark, pipeline, environment, rows_max)
        flows.append(Flow(route.name, rows_of(spark, pipeline, route, read_rows(messages, pipeline)), route.sink))
    if pipeline.bad_rows is not None:
        messages = read_source(spark, pipeline, environment, rows_max)
        read = _observed(with_bodies(messages, pipeline.source))
        flows.append(Flow(BAD_ROWS, bad_rows(read, pipeline.bad_rows.format), pipeline.bad_rows))
    return flows


def read_source(
    spark: SparkSession, pipeline: Pipeline, environment: Environment, rows_max: int | None = None
) -> DataFrame:
    """The source as it is: a stream or a batch."""
    source = pipeline.source
    with explained(environment, source.where, source.options):
        reader = (spark.readStream if source.is_stream else spark.read).format(source.format)
        if source.schema and source.body != "json":
            reader = reader.schema(source.schema)
        messages = reader.options(**source.options.filled(environment)).load()
    return messages if rows_max is None else messages.limit(rows_max)


def hide_options(spark: SparkSession, pipeline: Pipeline) -> None:
    """Have Spark show options from the environment as (redacted), like passwords."""
    names = {
        name
        for options in (pipeline.source.options, *(sink.options for sink in pipeline.sinks.values()))
        for name, value in options.values.items()
        if "${" in value
    }
    pattern = spark.conf.get("spark.sql.redaction.options.regex", "(?i)url") or "(?i)url"
    for name in sorted(names):
        part = f"|^{re.escape(name)}$"
        if part not in pattern:
            pattern += part
    spark.conf.set("spark.sql.redaction.options.regex", pattern)


def read_rows(messages: DataFrame, pipeline: Pipeline) -> Rows:
    """Read bodies, count rows, take bad rows out or let them end the query."""
    read = with_bodies(messages, pipeline.source)
    if pipeline.on_error == "fail":
        read = refuse_bad_rows(read)
    # Spark pushes no filter below the counts, so no condition of a route can hide a bad row from refuse_bad_rows.
    read = _observed(read)
    good = good_rows(read, pipeline.source)
    if pipeline.source.watermark is not None:
        good = good.withWatermark(*pipeline.source.watermark)
    return Rows(read, good)


def _observed(read: DataFrame) -> DataFrame:
    body = next((name for name in ("message_body", "body") if name in read.columns), "")
    stored = next((name for name in ("message_storeTimestamp", "storeTimestamp") if name in read.columns), "")
    counts = [F.count(F.lit(1)).alias("rows"), F.count(REASON).alias("bad")]
    if body:
        counts.append(F.sum(F.length(body)).alias("bytes"))
    if stored:
        counts.append(F.unix_millis(F.max(stored)).alias("newest_ms"))
    return read.observe(METRICS, *counts)


def rows_of(spark: SparkSession, pipeline: Pipeline, route: Route, rows: Rows) -> DataFrame:
    """The source's rows through the views and the route's condition, shaped for its sink."""
    frames: dict[str, DataFrame] = {"source": rows.good}
    rows.good.createOrReplaceTempView("source")
    last = "source"
    try:
        for view in pipeline.views:
            with explained_sql(view):
                frames[view.name] = spark.sql(view.sql)
                frames[view.name].createOrReplaceTempView(view.name)
            last = view.name
            if view.name == route.view:
                break
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)
    frame = frames[route.view or last]
    if route.condition:
        with explained(None, route.where):
            frame = frame.where(route.condition)
    return packed(frame) if route.sink.format == "rocketmq" else frame


def packed(frame: DataFrame) -> DataFrame:
    """Rows without a `body` become messages: columns that do not belong to the message go into a JSON body."""
    if "body" in frame.columns:
        return frame
    content = [name for name in frame.columns if name not in _TOPIC_COLUMNS]
    if not content:
        raise UsageError("the rows have neither `body` nor columns for one", hint="select ... as body")
    about = [F.col(name) for name in frame.columns if name in _TOPIC_COLUMNS]
    return frame.select(*about, F.to_json(F.struct(*content)).alias("body"))


def start(
    flow: Flow, pipeline: Pipeline, environment: Environment, *, once: bool, query_name: str = ""
) -> StreamingQuery:
    """Start the query of a flow; `once`: read the messages that are there now, then end."""
    sink = flow.sink
    writer = flow.rows.writeStream.format(sink.format).outputMode(sink.mode)
    options = sink.options.filled(environment)
    if "queryName" in options:
        query_name = options.pop("queryName")
    writer = writer.options(**options).queryName(query_name or f"{pipeline.name}.{flow.name}")
    checkpoint = environment.fill(pipeline.checkpoint, "checkpoint")
    writer = writer.option("checkpointLocation", f"{checkpoint}/{flow.name}")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger:
        writer = writer.trigger(processingTime=pipeline.trigger)
    with explained(environment, sink.where, sink.options):
        _set_active(flow.rows.sparkSession)
        return writer.start()


def _set_active(spark: SparkSession) -> None:
    # Spark looks up a format in Python in the session that is active in this thread; only the one that made the session
    # has it by itself. A session over Spark Connect has no thread here.
    if isinstance(spark, SparkSession):
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def write_batch(flow: Flow, pipeline: Pipeline, environment: Environment) -> None:
    """Write a batch source's rows once."""
    sink = flow.sink
    with explained(environment, sink.where, sink.options):
        if sink.format == "console":
            flow.rows.show(int(sink.options.text("numRows") or 20), truncate=False)
            return
        if sink.format == "memory":
            flow.rows.createOrReplaceTempView(sink.options.text("queryName") or flow.name)
            return
        writer = flow.rows.write.format(sink.format).mode("append").options(**sink.options.filled(environment))
        (writer.partitionBy(*sink.partition_by) if sink.partition_by else writer).save()
