"""Rows written to a topic, broker on the same machine: both guarantees, beside a sink that only counts its rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import wire
from bench.brokers import RocketLake
from bench.plan import Figure, Values, say
from bench.spark_loads.plan import SparkLoad, SparkPlan
from bench.spark_loads.prebuilt import register
from bench.spark_loads.session import local_spark, spark_cpu_seconds, steady_rate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, QUEUES = "spark-sink", 8
SMALL_BODY_BYTES = 100
GUARANTEES = ("at_least_once", "effectively_once")
TASKS = 2


def made_rows(spark: SparkSession, rows: int) -> DataFrame:
    """Rows of the JVM with a body of 100 bytes, nearly free to make."""
    body = f"rpad(cast(id as string), {SMALL_BODY_BYTES}, 'x')"
    return spark.range(rows, numPartitions=TASKS).selectExpr(f"cast({body} as binary) as body")


def prebuilt_rows(spark: SparkSession, rows: int, batch_rows: int) -> DataFrame:
    """The same as a stream."""
    stream = spark.readStream.format("prebuilt_rows").option("rows", rows).option("batchRows", batch_rows)
    return stream.option("bodyBytes", SMALL_BODY_BYTES).load().select("body")


def run(root: Path, plan: SparkPlan) -> Values:
    """Batch writes by turns, then one stream for each guarantee."""
    spark = local_spark(root)
    register(spark)
    values: Values = {}
    best: dict[str, float] = {}
    with RocketLake(root / "rocketlake") as side:
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)

        def write(rows: int, guarantee: str) -> None:
            writer = made_rows(spark, rows).write.format("rocketmq").option("namesrvAddr", side.namesrv)
            writer.option("topic", TOPIC).option("deliveryGuarantee", guarantee).mode("append").save()

        def to_noop(rows: int, _guarantee: str) -> None:
            made_rows(spark, rows).mapInArrow(lambda batches: batches, "body binary").write.format("noop").mode(
                "overwrite"
            ).save()

        kinds = {"ceiling": to_noop, **dict.fromkeys(GUARANTEES, write)}
        for kind, do in kinds.items():
            do(plan.batch_rows // 10, kind)
        for number in range(plan.rounds):
            for kind, do in kinds.items():
                say(f"round {number + 1} of {plan.rounds}: {plan.small_rows:,} rows of 100 B, {kind}")
                begun, before = time.perf_counter(), (spark_cpu_seconds(), side.cpu_seconds())
                do(plan.small_rows, kind)
                rate = plan.small_rows / (time.perf_counter() - begun)
                if rate > best.get(kind, 0.0):
                    best[kind] = rate
                    values[f"{kind}_spark_us"] = (spark_cpu_seconds() - before[0]) / plan.small_rows * 1e6
                    values[f"{kind}_broker_us"] = (side.cpu_seconds() - before[1]) / plan.small_rows * 1e6
        for guarantee in GUARANTEES:
            say(f"stream, {guarantee}")
            writer = prebuilt_rows(spark, plan.small_rows, plan.batch_rows).writeStream.format("rocketmq")
            writer = writer.option("namesrvAddr", side.namesrv).option("topic", TOPIC)
            writer = writer.option("deliveryGuarantee", guarantee).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(root / f"checkpoint-{guarantee}")).start()
            query.awaitTermination()
            values[f"{guarantee}_stream"] = steady_rate(query)
    spark.stop()
    return values | best


LOADS = (
    SparkLoad(
        "sink",
        "rows of 100 B -> topic",
        (
            Figure("at_least_once", "at_least_once, batch, rows/s", must=80_000, aim=150_000, limits_of="ours"),
            Figure("effectively_once", "effectively_once, batch, rows/s", must=80_000, aim=150_000, limits_of="ours"),
            Figure("at_least_once_stream", "at_least_once, stream, rows/s", must=80_000, aim=150_000, limits_of="ours"),
            Figure(
                "effectively_once_stream",
                "effectively_once, stream, rows/s",
                must=80_000,
                aim=150_000,
                limits_of="ours",
            ),
            Figure("ceiling", "rows through Python and back to noop, rows/s"),
            Figure("at_least_once_spark_us", "Spark's CPU a row, us", better="lower"),
            Figure("at_least_once_broker_us", "the broker's CPU a row, us", better="lower"),
            Figure("effectively_once_broker_us", "the broker's CPU a row, effectively_once, us", better="lower"),
        ),
        run,
    ),
)
