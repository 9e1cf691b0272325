"""Side by side with Spark's Kafka connector: same rows, same Spark, same machine, by turns."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan import Figure, Values, say
from bench.spark_loads.plan import BODY_BYTES, SparkLoad, SparkPlan
from bench.spark_loads.session import local_spark
from bench.spark_loads.stream import Cost, cost_to_end, topic_stream
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
    costs: dict[str, list[Cost]] = {"kafka": [], "rocketmq": [], "rocketmq_core": []}
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
        for number in range(1 + plan.rounds):
            for name, stream in streams.items():
                say(f"round {number} of {plan.rounds}{'' if number else ', to get warm'}: {name} to {form}")
                broker = kafka.pid if name == "kafka" else side.broker_pid
                cost = cost_to_end(stream(), root, f"{name}{number}", form, broker)
                say(f"  {cost.rate:,.0f} rows/s, {cost.spark_us:.2f} us of Spark, {cost.broker_us:.2f} of the broker")
                costs[name] += [cost] * bool(number)
        spark.stop()
    values: Values = {}
    for name, found in costs.items():
        values[f"{name}_rows_per_second"] = round(statistics.median(each.rate for each in found))
        values[f"{name}_cpu_us"] = round(statistics.median(each.spark_us for each in found), 2)
        values[f"{name}_broker_us"] = round(statistics.median(each.broker_us for each in found), 2)
    for name, ours in (("core_", "rocketmq_core"), ("", "rocketmq")):
        values[f"{name}ratio"] = round(values[f"{ours}_rows_per_second"] / values["kafka_rows_per_second"], 2)
        values[f"{name}cpu_ratio"] = round(values[f"{ours}_cpu_us"] / values["kafka_cpu_us"], 2)
    return values


_SIDES = (("kafka", "Kafka's connector"), ("rocketmq_core", "ours, like columns"), ("rocketmq", "ours, 11 columns"))


def _figures(must: float | None, aim: float | None) -> tuple[Figure, ...]:
    """`must`, `aim`: the rate beside that of Kafka's connector; its CPU a row may be 1.2 times, should be as much."""
    cpu = (1.2, 1.0) if must else (None, None)
    return (
        Figure("core_ratio", "rows/s, like columns / Kafka's connector", must, aim, limits_of="ours"),
        Figure("ratio", "rows/s, 11 columns / Kafka's connector"),
        Figure("core_cpu_ratio", "CPU a row, like columns / Kafka's", *cpu, "lower", "ours"),
        Figure("cpu_ratio", "CPU a row, 11 columns / Kafka's", better="lower"),
        *(Figure(f"{side}_rows_per_second", f"{title}, rows/s") for side, title in _SIDES),
        *(Figure(f"{side}_cpu_us", f"{title}, CPU of Spark, us/row", better="lower") for side, title in _SIDES),
        *(Figure(f"{side}_broker_us", f"{title}, CPU of the broker, us/row", better="lower") for side, title in _SIDES),
    )


LOADS = (
    SparkLoad("kafka-noop", "Beside Spark's Kafka connector, stream -> noop, 1 KiB", _figures(1.1, 1.3), run_noop),
    SparkLoad(
        "kafka-parquet", "Beside Spark's Kafka connector, stream -> Parquet, 1 KiB", _figures(None, None), run_parquet
    ),
)
