"""A Spark driver as a process: runs the lake streams it is told, one JSON line each, until it is killed.

Owns the session and the query. spark_kills.py decides when it is killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from rocketlake.spark.pipeline.session import local_session


def main(root: Path, master: str) -> None:
    spark = local_session("kills", root, master=master)
    spark.sparkContext.setLogLevel("OFF")
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    print(json.dumps({"pids": [java, os.getpid()]}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"outcome": run(spark, json.loads(line))}), flush=True)


def run(spark: Any, job: dict[str, Any]) -> str:
    """The stream to the end of what is there; "done", or what Spark said when it failed."""
    rows = spark.readStream.format("rocketmq").option("namesrvAddr", job["namesrv"]).option("subscribe", job["topic"])
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", job["batchRows"])
    rows = rows.option("minPartitions", 4).load()  # several tasks a batch: small ranges would share one
    writer = rows.writeStream.format("rocketmq_lake").options(**job["table"])
    writer = writer.option("checkpointLocation", job["checkpoint"])
    try:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    except Exception as error:  # whatever a killed worker or a missing broker looks like to Spark
        return f"failed: {str(error)[:1500]}"
    return "done"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
