"""Side by side with Spark's Kafka connector: same rows, same Spark, same machine, by turns."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan import Figure, Values, say
from bench.spark_loads.plan import BODY_BYTES, SparkLoad, SparkPlan
from bench.spark_loads.session import local_spark, spark_cpu_seconds, steady_rate
from bench.spark_loads.stream import run_to_end, topic_stream
from bench.spark_loads.topic import TOPIC, filled_topic
from interop.kafka import KafkaBroker, spark_kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def kafka_stream(spark: SparkSession, broker: KafkaBroker, batch_rows: int) -> DataFrame:
    """Spark's own connector, with its headers column as ours has its properties."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    stream = stream.option("subscribe", TOPIC).option("startingOffsets", "earliest").option("includeHeaders", "true")
    return stream.option("maxOffsetsPerTrigger", batch_rows).load()


def run_noop(root: Path, plan: SparkPlan) -> Values:
    return _both(root, plan, "noop")


def run_parquet(root: Path, plan: SparkPlan) -> Values:
    return _both(root, plan, "parquet")


def _both(root: Path, plan: SparkPlan, form: str) -> Values:
    rates: dict[str, list[float]] = {"kafka": [], "rocketmq": [], "rocketmq_core": []}
    cpu: dict[str, float] = {}
    with filled_topic(root, plan.rows) as side, KafkaBroker(root / "kafka") as kafka:
        say(f"kafka: sending {plan.rows:,} messages of 1 KiB")
        kafka.fill(TOPIC, plan.rows, BODY_BYTES)
        spark = local_spark(root, jars=spark_kafka_jars())
        streams = {
            "kafka": lambda: kafka_stream(spark, kafka, plan.batch_rows),
            "rocketmq": lambda: topic_stream(spark, side, maxOffsetsPerTrigger=plan.batch_rows),
            # About the columns that Kafka's connector has.
            "rocketmq_core": lambda: topic_stream(spark, side, maxOffsetsPerTrigger=plan.batch_rows, columns="core"),
        }
        for number in range(plan.rounds):
            for name, stream in streams.items():
                say(f"round {number + 1} of {plan.rounds}: {name} to {form}")
                before = spark_cpu_seconds()
                rates[name].append(steady_rate(run_to_end(stream(), root, f"{name}{number}", form)))
                cpu[name] = spark_cpu_seconds() - before
        spark.stop()
    values = {f"{name}_rows_per_second": round(statistics.median(found)) for name, found in rates.items()}
    values |= {f"{name}_cpu_us": round(seconds * 1e6 / plan.rows, 2) for name, seconds in cpu.items()}
    values["ratio"] = round(values["rocketmq_rows_per_second"] / values["kafka_rows_per_second"], 2)
    values["core_ratio"] = round(values["rocketmq_core_rows_per_second"] / values["kafka_rows_per_second"], 2)
    return values


_FIGURES = (
    Figure("core_ratio", "rows/s, like columns / Kafka's connector"),
    Figure("ratio", "rows/s, 11 columns / Kafka's connector"),
    Figure("kafka_rows_per_second", "Kafka's connector, rows/s"),
    Figure("rocketmq_core_rows_per_second", "ours, like columns, rows/s"),
    Figure("rocketmq_rows_per_second", "ours, 11 columns, rows/s"),
)

LOADS = (
    SparkLoad("kafka-noop", "Beside Spark's Kafka connector, stream -> noop, 1 KiB", _FIGURES, run_noop),
    SparkLoad("kafka-parquet", "Beside Spark's Kafka connector, stream -> Parquet, 1 KiB", _FIGURES, run_parquet),
)
