"""A topic streamed through Spark, broker on the same machine: rates, trigger times, memory over a long backlog."""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan import Figure, Values, say
from bench.process import cpu_seconds
from bench.spark_loads.plan import BODY_BYTES, COLUMNS, SparkLoad, SparkPlan
from bench.spark_loads.prebuilt import register
from bench.spark_loads.session import local_spark, spark_anonymous_mb, spark_cpu_seconds, steady_rate
from bench.spark_loads.topic import TOPIC, filled_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bench.brokers import RocketLake

MEMORY_LOOKS_A_SECOND = 2
FIRST_BATCH_LOOKS_A_SECOND = 50


def topic_stream(spark: SparkSession, side: RocketLake, **options: object) -> DataFrame:
    """The topic from its first message on."""
    stream = spark.readStream.format("rocketmq").option("namesrvAddr", side.namesrv).option("subscribe", TOPIC)
    stream = stream.option("startingOffsets", "earliest").option("columns", COLUMNS)
    for name, value in options.items():
        stream = stream.option(name, str(value))
    return stream.load()


def prebuilt_stream(spark: SparkSession, rows: int, batch_rows: int) -> DataFrame:
    """As many rows that cost nothing to make."""
    stream = spark.readStream.format("prebuilt_rows").option("rows", rows).option("batchRows", batch_rows)
    return stream.option("bodyBytes", BODY_BYTES).load()


def run_to_end(rows: DataFrame, root: Path, name: str, form: str = "noop", **options: str) -> StreamingQuery:
    """The stream until all that is there now is through."""
    writer = rows.writeStream.format(form).option("checkpointLocation", str(root / f"checkpoint-{name}"))
    if form != "noop":
        writer = writer.option("path", str(root / f"table-{name}"))
    for option, value in options.items():
        writer = writer.option(option, value)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stream reached, and what each row cost, without the start of the query: CPU in us."""

    rate: float
    spark_us: float
    broker_us: float


def cost_to_end(rows: DataFrame, root: Path, name: str, form: str, broker_pid: int) -> Cost:
    """Run the stream to its end. CPU counts from the first micro-batch's end on, as the rate does."""
    path = {} if form == "noop" else {"path": str(root / f"table-{name}")}
    writer = rows.writeStream.format(form).option("checkpointLocation", str(root / f"checkpoint-{name}"))
    query = writer.options(**path).trigger(availableNow=True).start()
    pause = threading.Event()
    while query.isActive and not _rows_of(query):
        pause.wait(1 / FIRST_BATCH_LOOKS_A_SECOND)
    before = _rows_of(query), spark_cpu_seconds(), cpu_seconds(broker_pid)
    query.awaitTermination()
    count = _rows_of(query) - before[0]
    spark_us, broker_us = spark_cpu_seconds() - before[1], cpu_seconds(broker_pid) - before[2]
    return Cost(steady_rate(query), spark_us * 1e6 / count, broker_us * 1e6 / count)


def _rows_of(query: StreamingQuery) -> int:
    return sum(each.numInputRows for each in query.recentProgress)


def run_noop(root: Path, plan: SparkPlan) -> Values:
    return _rates(root, plan, "noop")


def run_parquet(root: Path, plan: SparkPlan) -> Values:
    return _rates(root, plan, "parquet")


def run_lake(root: Path, plan: SparkPlan) -> Values:
    return _rates(root, plan, "rocketmq_lake")


def _rates(root: Path, plan: SparkPlan, form: str) -> Values:
    with filled_topic(root, plan.rows) as side:
        spark = local_spark(root)
        register(spark)
        ceilings: list[float] = []
        costs: list[Cost] = []
        for number in range(plan.rounds):
            say(f"round {number + 1} of {plan.rounds}: prebuilt rows, then the topic, to {form}")
            above = prebuilt_stream(spark, plan.rows, plan.batch_rows)
            ceiling_form = "parquet" if form == "rocketmq_lake" else form
            ceilings.append(steady_rate(run_to_end(above, root, f"ceiling{number}", ceiling_form)))
            rows = topic_stream(spark, side, maxOffsetsPerTrigger=plan.batch_rows)
            costs.append(cost_to_end(rows, root, f"topic{number}", form, side.broker_pid))
        spark.stop()
    ours = statistics.median(each.rate for each in costs)
    return {
        "rows_per_second": round(ours),
        "ceiling_rows_per_second": round(statistics.median(ceilings)),
        "of_ceiling": round(ours / statistics.median(ceilings), 2),
        "spark_cpu_us": round(costs[-1].spark_us, 2),
        "broker_cpu_us": round(costs[-1].broker_us, 2),
    }


def run_trigger(root: Path, plan: SparkPlan) -> Values:
    rows = plan.trigger_batches * 1000
    with filled_topic(root, rows) as side:
        spark = local_spark(root)
        register(spark)
        above = run_to_end(prebuilt_stream(spark, rows, 1000), root, "ceiling")
        ours = run_to_end(topic_stream(spark, side, maxOffsetsPerTrigger=1000), root, "topic")
        spark.stop()
    return {
        "trigger_p50_ms": _trigger_ms(ours, plan),
        "floor_p50_ms": _trigger_ms(above, plan),
    }


def _trigger_ms(query: StreamingQuery, plan: SparkPlan) -> float:
    times = [each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows]
    return float(statistics.median(times[plan.trigger_batches // 4 :]))


def run_memory(root: Path, plan: SparkPlan) -> Values:
    """Private memory of Spark and its workers, before and during: the backlog must not come into memory."""
    with filled_topic(root, plan.backlog_rows) as side:
        spark = local_spark(root)
        register(spark)
        run_to_end(prebuilt_stream(spark, plan.batch_rows, plan.batch_rows // 4), root, "warm")
        before = spark_anonymous_mb()
        rows = topic_stream(spark, side, maxBytesPerTrigger="64m")
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint-memory"))
        query = writer.start()
        peak = before
        pause = threading.Event()
        while query.isActive and len(query.recentProgress) < plan.backlog_triggers:
            peak = max(peak, spark_anonymous_mb())
            pause.wait(1 / MEMORY_LOOKS_A_SECOND)
        sizes = [each.numInputRows for each in query.recentProgress]
        query.stop()
        spark.stop()
    return {
        "before_mb": round(before),
        "added_mb": round(peak - before),
        "rows_per_trigger": round(statistics.median(sizes)),
    }


def _rate_figures(must: float, aim: float) -> tuple[Figure, ...]:
    return (
        Figure("rows_per_second", "rows/s", must, aim, limits_of="ours"),
        Figure("ceiling_rows_per_second", "the same rows prebuilt, rows/s"),
        Figure("of_ceiling", "of the ceiling"),
        Figure("spark_cpu_us", "CPU of Spark and its workers, us/row", better="lower"),
        Figure("broker_cpu_us", "CPU of the broker, us/row", better="lower"),
    )


LOADS = (
    SparkLoad("topic-noop", "Topic stream -> noop, 1 KiB", _rate_figures(120_000, 200_000), run_noop),
    SparkLoad("topic-parquet", "Topic stream -> Parquet, 1 KiB", _rate_figures(80_000, 110_000), run_parquet),
    SparkLoad("topic-lake", "Topic stream -> lake table (Parquet), 1 KiB", _rate_figures(80_000, 110_000), run_lake),
    SparkLoad(
        "trigger",
        "Micro-batches of 1,000 rows",
        (
            Figure("trigger_p50_ms", "trigger p50, ms", 350, 300, "lower", "ours"),
            Figure("floor_p50_ms", "with prebuilt rows, ms", better="lower"),
        ),
        run_trigger,
    ),
    SparkLoad(
        "memory",
        "A long backlog, maxBytesPerTrigger = 64m",
        (
            Figure("added_mb", "memory added, MB", 1000, 500, "lower", "ours"),
            Figure("rows_per_trigger", "rows a trigger"),
        ),
        run_memory,
    ),
)
