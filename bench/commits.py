"""`python -m bench.commits`: how long a micro-batch takes to become a commit of a Delta or Iceberg table on S3.

Owns        a real S3 server (moto), a line before it that brings each request 15 ms late, the batches.
Must not know   Spark: a batch is one task of 1,000 rows, written and committed as Spark's driver does it.

The task's own part (its data file) and the commit are told apart. Writes bench/results/<date>-commits.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from bench.__main__ import machine, result_path
from rocketlake.spark.lake.batch_commit import commit_batch
from rocketlake.spark.lake.options import parse_options
from rocketlake.spark.lake.task import LakeTask
from tests.s3_server import options_for, s3_server

ROWS = 1_000
SCHEMA = (
    StructType()
    .add("topic", StringType())
    .add("brokerName", StringType())
    .add("queueId", IntegerType())
    .add("queueOffset", LongType())
    .add("body", StringType())
)


def rows(batch: int) -> pa.RecordBatch:
    """Those of one batch."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["orders"] * ROWS,
            "brokerName": ["broker-a"] * ROWS,
            "queueId": pa.array(np.zeros(ROWS), pa.int32()),
            "queueOffset": pa.array(np.arange(ROWS) + batch * ROWS, pa.int64()),
            "body": ["x" * 100] * ROWS,
        }
    )


@contextmanager
def late_line(endpoint: str, late_ms: float) -> Iterator[str]:
    """An address behind which the server is; what is sent to it arrives so much later."""
    to = urlsplit(endpoint)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # connections that the end cuts off

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        sent: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            data = b"-"
            while data:
                due, data = await sent.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(data)
            writer.close()

        delivering = loop.create_task(deliver())
        data = b"-"
        while data:
            data = await reader.read(1 << 16)
            sent.put_nowait((loop.time() + seconds, data))
        await delivering

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(to.hostname, to.port)
        await asyncio.gather(carry(reader, back, late_ms / 1000), carry(there, writer, 0), return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:

        async def end() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def measure(table_format: str, batches: int, late_ms: float) -> dict[str, float]:
    """Milliseconds of the tasks and of the commits."""
    TaskContext._getOrCreate()
    tasks, commits = [], []
    with (
        tempfile.TemporaryDirectory(prefix="rocketlake-commits-") as folder,
        s3_server("bench") as endpoint,
        late_line(endpoint, late_ms) as line,
    ):
        given = {"path": "s3://bench/lake/t", "tableFormat": table_format, **options_for(line, Path(folder))}
        if table_format == "iceberg":
            given |= {"catalog.type": "sql", "catalog.uri": f"sqlite:///{folder}/catalog.db"}
        for batch in range(batches + 1):
            began = time.perf_counter()
            written = LakeTask(parse_options(given, streaming=True), SCHEMA, "bench", batch).write(iter([rows(batch)]))
            at = time.perf_counter()
            commit_batch([written], batch)
            if batch:  # the first one makes the table
                tasks.append((at - began) * 1000)
                commits.append((time.perf_counter() - at) * 1000)
    return {
        "task_ms_p50": round(statistics.median(tasks), 1),
        "commit_ms_p50": round(statistics.median(commits), 1),
        "commit_ms_p95": round(statistics.quantiles(commits, n=20)[-1], 1),
    }


def main() -> None:
    """One run of each format, and a file of results."""
    parser = argparse.ArgumentParser(prog="python -m bench.commits")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--late-ms", type=float, default=15)
    given = parser.parse_args()
    found = {}
    for table_format in ("delta", "iceberg"):
        found[table_format] = measure(table_format, given.batches, given.late_ms)
        print(f"{table_format}: {found[table_format]}", flush=True)
    path = result_path("commits", quick=given.batches < 60)
    path.write_text(json.dumps({"machine": machine(), "options": vars(given), "found": found}, indent=1) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
