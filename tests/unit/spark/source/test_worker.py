"""The garbage collector of a Spark worker. In a process of its own: what is frozen stays so."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys
from pyspark import TaskContext
from rocketlake.spark.schema import full_schema
from rocketlake.spark.source.batch_reader import RocketMQBatchReader
from rocketlake.spark.source.options import parse_options
from rocketlake.spark.source.plan import RangesPartition
from rocketlake.spark.source.stream_reader import RocketMQStreamReader

kind = {"stream": RocketMQStreamReader, "batch": RocketMQBatchReader}[sys.argv[1]]
given = {"namesrvAddr": "memory:1", "subscribe": "T", "startingOffsets": "earliest"}
options = parse_options(given, streaming=sys.argv[1] == "stream")
reader = kind(options, full_schema(), connect=lambda _: None)

def frozen_by_a_read():
    list(reader.read(RangesPartition([])))
    return gc.get_freeze_count()

outside = frozen_by_a_read()
TaskContext._setTaskContext(TaskContext())
first = frozen_by_a_read()
later = [[] for _ in range(100_000)]
print(outside, first > 1000, frozen_by_a_read() <= first)
"""


@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_a_worker_freezes_what_was_there_before_its_first_read(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, kind], capture_output=True, text=True, timeout=120)
    assert done.stdout == "0 True True\n", done.stderr
