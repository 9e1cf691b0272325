"""A change stream of Debezium becomes a table of customers: `python examples/upserts.py NAMESRV FOLDER`.

Run it again: it sends later changes, and a late one that changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from rocketlake import Message, Producer
from rocketlake.spark.pipeline.session import local_session

namesrv, folder = sys.argv[1], Path(sys.argv[2])
FIRST = [("c", 10, 1, "Ada"), ("c", 20, 2, "Bob"), ("c", 30, 3, "Cleo")]
THEN = [("u", 50, 1, "Ada L."), ("d", 60, 2, "Bob"), ("u", 40, 2, "Bobby, late")]


async def send(changes: list[tuple[str, int, int, str]]) -> None:
    """As Debezium writes them: the operation, its place in the log, the row before or after it."""
    async with Producer("customers", namesrv=namesrv) as producer:
        for op, lsn, id, name in changes:
            row = {"id": id, "name": name}
            change = {"op": op, "source": {"lsn": lsn}, "before" if op == "d" else "after": row}
            await producer.send(Message("customers", json.dumps(change).encode(), keys=str(id)))


def keep(spark: SparkSession) -> None:
    """All changes that are there, into the table."""
    changes = spark.readStream.format("rocketmq").option("namesrvAddr", namesrv).option("subscribe", "customers")
    writer = changes.option("startingOffsets", "earliest").load().writeStream.format("rocketmq_lake")
    for name, value in {
        "tableFormat": "delta",
        "bodyFormat": "debezium",
        "bodySchema": "id bigint, name string",
        "mergeKeys": "id",
        "checkpointLocation": str(folder / "checkpoint"),
    }.items():
        writer = writer.option(name, value)
    writer.trigger(availableNow=True).start(str(folder / "table")).awaitTermination()


if __name__ == "__main__":
    asyncio.run(send(THEN if (folder / "table" / "_delta_log").exists() else FIRST))
    spark = local_session("upserts", folder / "spark", master="local[2]")
    keep(spark)
    rows = spark.read.format("rocketmq_lake").load(str(folder / "table")).orderBy("id").collect()
    print(", ".join(f"{row.id} {row.name}" for row in rows))
    spark.stop()
