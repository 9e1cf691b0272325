"""The Spark side of the demo: topic -> partitioned Parquet table -> hourly delay report by airport.

Owns        the session, the two streaming queries, reading the table back.
Must not know   producers, consumers, the broker's files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from demo.check import TableFacts
from demo.flights import TOPIC, read

EVENT = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour timestamp"
)
_LOGGING = Path(__file__).with_name("log4j2.properties")


def start_session(folder: Path) -> SparkSession:
    """A local Spark with two cores; its log goes to folder/spark.log, its scratch files under folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run where this package is installed
    # A job of a minute gains more from code that is compiled early than from code that is compiled best.
    java = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()} "
        f"-Ddemo.folder={folder} -Dderby.system.home={folder}"
    )
    return (
        SparkSession.builder.master("local[2]")
        .appName("RocketLake demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.local.dir", str(folder / "scratch"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def stream_to_table(spark: SparkSession, namesrv: str, folder: Path) -> StreamingQuery:
    """The topic as a Parquet table, one folder per month; the raw body stays beside the parsed columns."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("consumerGroup", "demo-lake")
        .option("maxOffsetsPerTrigger", 100_000)
        .option("includeProperties", "false")
        .load()
    )
    flights = messages.select(
        F.from_json(F.col("body").cast("string"), EVENT).alias("event"),
        "tags", "keys", "brokerName", "queueId", "queueOffset", "storeTimestamp", "body",
    ).select("event.*", "tags", "keys", "brokerName", "queueId", "queueOffset", "storeTimestamp", "body")  # fmt: skip
    return (
        flights.writeStream.format("parquet")
        .queryName("table")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoints" / "table"))
        .partitionBy("month")
        .trigger(processingTime="1 second")
        .start()
    )


def stream_to_report(spark: SparkSession, folder: Path, *, finish: bool = False) -> StreamingQuery:
    """Departure delays per hour and airport, kept up to date while the table grows; or brought up to date once."""
    (folder / "table").mkdir(exist_ok=True)
    flights = spark.readStream.schema(_table_schema()).parquet(str(folder / "table"))
    hours = flights.groupBy("time_hour", "origin").agg(
        F.count("*").alias("flights"),
        F.count(F.when(F.col("dep_time").isNull(), 1)).alias("cancelled"),
        F.round(F.avg("dep_delay"), 2).alias("mean_delay"),
        F.count(F.when(F.col("dep_delay") > 15, 1)).alias("late"),
        F.first("hour").alias("local_hour"),
    )
    named = hours.join(F.broadcast(_airports(spark)), "origin").select(
        "time_hour", "local_hour", "origin", "airport", "flights", "cancelled", "late", "mean_delay"
    )

    def replace(report: DataFrame, _: int) -> None:
        report.coalesce(1).sort("time_hour", "origin").write.mode("overwrite").parquet(str(folder / "report"))

    writer = (
        named.writeStream.queryName("report")
        .outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoints" / "report"))
        .foreachBatch(replace)
    )
    return (writer.trigger(availableNow=True) if finish else writer.trigger(processingTime="10 seconds")).start()


def rows_written(query: StreamingQuery) -> int:
    """Rows of all finished micro-batches."""
    return sum({p["batchId"]: int(p["numInputRows"]) for p in query.recentProgress}.values())


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


def _table_schema() -> str:
    # A column that names folders stands behind all others when a table is read.
    return EVENT.replace("month int, ", "") + (
        ", tags string, keys string, brokerName string, queueId int, queueOffset long, storeTimestamp timestamp, "
        "body binary, month int"
    )


def _airports(spark: SparkSession) -> DataFrame:
    airports = read("airports.csv")[["faa", "name"]].itertuples(index=False, name=None)
    return spark.createDataFrame(list(airports), "origin string, airport string")
