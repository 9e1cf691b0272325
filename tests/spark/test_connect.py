"""Spark Connect: the same formats through a client that has no JVM of its own. In a process of its own: one process
holds either kind of session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rocketlake.testing.cluster import EmbeddedCluster

ROOT = Path(__file__).parents[2]

CLIENT = """
import sys
from pyspark.sql import SparkSession

namesrv, folder = sys.argv[1:]
spark = (
    SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
)
options = {"namesrvAddr": namesrv, "subscribe": "connect", "startingOffsets": "earliest"}
print("rows", spark.read.format("rocketmq").options(**options).load().where("tags = 'A'").count())
writer = spark.readStream.format("rocketmq").options(**options).load().writeStream.format("parquet")
writer = writer.option("path", f"{folder}/table").option("checkpointLocation", f"{folder}/checkpoint")
writer.trigger(availableNow=True).start().awaitTermination(60)
print("streamed", spark.read.parquet(f"{folder}/table").count())
spark.stop()
"""


def test_batch_and_stream_over_spark_connect(tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("connect", [b"%d" % n for n in range(20)], tags="A")
        done = subprocess.run(
            [sys.executable, str(script), cluster.namesrv, str(tmp_path)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert "rows 20" in done.stdout, done.stderr[-3000:]
    assert "streamed 20" in done.stdout, done.stderr[-3000:]
