"""Spark Declarative Pipelines: the source feeds a streaming table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rocketlake.testing.cluster import EmbeddedCluster

ROOT = Path(__file__).parents[2]

SPECIFICATION = """
name: smoke
storage: {folder}/storage
libraries:
  - glob:
      include: flows.py
"""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
options = {{"namesrvAddr": "{namesrv}", "subscribe": "declared", "startingOffsets": "earliest", "columns": "core"}}


@dp.table
def messages():
    return spark.readStream.format("rocketmq").options(**options).load()
"""


def test_a_topic_becomes_a_streaming_table(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("declared", [b"%d" % n for n in range(20)])
        (tmp_path / "spark-pipeline.yaml").write_text(SPECIFICATION.format(folder=tmp_path.as_uri()))
        (tmp_path / "flows.py").write_text(FLOWS.format(namesrv=cluster.namesrv))
        command = [str(Path(sys.executable).with_name("spark-pipelines")), "--conf", "spark.ui.enabled=false"]
        command += ["--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse", "run"]
        environment = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
        environment["SPARK_TESTING"] = "1"  # any free port for its own server, else always 15002
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    table = parquet.read_table(tmp_path / "warehouse" / "messages")
    assert sorted(int(body) for body in table.column("body").to_pylist()) == [*range(20)]
