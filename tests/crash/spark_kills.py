"""One seed: a topic streams into a lake table, one process is killed at a named point, topic and table are compared.

Owns        the cluster and Spark processes of a run of seeds, what a seed decides, the comparison.
Must not know   how the lake commits.

A seed kills one of these: the task's worker; the process that commits, with Spark's JVM and driver; an executor of a
cluster (spark_cluster.py); the broker, at a random moment. A query that failed is started again from its checkpoint,
as an operator would. The table lies in a folder, or in a bucket of an S3 server.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from interop.apache import free_ports, wait_for_port
from rocketlake.client.sync import Producer
from rocketlake.model.message import Message
from rocketlake.spark.lake.options import parse_options
from rocketlake.spark.lake.tables.open_table import open_table
from tests.crash.broker_process import BrokerProcess
from tests.crash.spark_cluster import SparkCluster

FORMATS = ("parquet", "delta", "iceberg")
POINTS = (
    "lake.mid_write",
    "lake.after_write",
    "lake.before_commit",
    "lake.after_entry",
    "lake.mid_moves",
    "lake.after_commit",
)
PARQUET_ONLY = ("lake.after_entry", "lake.mid_moves")
VICTIMS = ("worker", "driver", "broker")
TRIES_MAX = 8
Row = tuple[tuple[int, int], bytes]
"""((queue, offset), body)"""


@dataclass(frozen=True)
class Plan:
    """What a seed decides."""

    seed: int
    table_format: str
    victim: str
    point: str
    crash_at: int
    messages: int
    batch_rows: int
    delay: float

    @classmethod
    def of(cls, seed: int, victim: str = "") -> Plan:
        """Formats and victims (unless one is given) come in turn: a few seeds see them all; the rest is drawn."""
        draw = random.Random(seed)
        table_format = FORMATS[seed % 3]
        points = [point for point in POINTS if table_format == "parquet" or point not in PARQUET_ONLY]
        return cls(
            seed,
            table_format,
            victim or VICTIMS[seed // 3 % 3],
            draw.choice(points),
            draw.randint(1, 4),
            draw.randint(400, 1500),
            draw.choice((150, 300, 500)),
            draw.uniform(0.0, 2.5),
        )


class Cluster:
    """A name server and a broker, two processes."""

    def __init__(self, root: Path) -> None:
        (port,) = free_ports(1)
        self.namesrv = f"127.0.0.1:{port}"
        with (root / "namesrv.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", "run", "namesrv", "--port", str(port)]
            self._namesrv = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_for_port(port, self._namesrv)
        self.broker = BrokerProcess(root / "broker", namesrvAddr=self.namesrv, brokerName="broker-a")
        self.broker.start()

    def stop(self) -> None:
        self.broker.kill()
        self._namesrv.kill()
        self._namesrv.wait()


class Spark:
    """The driver process; started again when it was killed. `clustered`: its executor is a process of its own."""

    def __init__(self, root: Path, *, clustered: bool = False) -> None:
        self._root = root
        self._clustered = clustered
        self._cluster: SparkCluster | None = None
        self.crash = root / "crash"
        self._passes = root / "passes"
        self._pids = root / "pids"
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: dict[str, Any]) -> str:
        """ "done", or why not."""
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._end()
            return "the driver was killed"
        return str(json.loads(line)["outcome"])

    def arm(self, point: str, number: int, victim: str) -> None:
        """The next process that passes the point for this time dies, and the victim with it."""
        self._passes.unlink(missing_ok=True)
        pids: list[int] = []
        if victim == "driver":
            pids = self._known_pids
        elif victim == "executor":
            assert self._cluster is not None
            pids = self._cluster.executors()
        self._pids.write_text("\n".join(map(str, pids)))
        self.crash.write_text(f"{point}@{number}")

    def disarm(self) -> None:
        self.crash.write_text("")

    def _start(self) -> None:
        self._root.mkdir(exist_ok=True)
        self.crash.touch()
        crash = {
            "ROCKETLAKE_CRASH": f"@{self.crash}",
            "ROCKETLAKE_CRASH_COUNT": str(self._passes),
            "ROCKETLAKE_CRASH_PIDS": str(self._pids),
        }
        # A third attempt of a task is one too many kills for one seed; local[2] alone would try each only once.
        master = "local[2,2]"
        if self._clustered:
            self._cluster = self._cluster or SparkCluster(self._root / "cluster", crash)
            master = self._cluster.url
        command = [sys.executable, str(Path(__file__).with_name("spark_driver.py")), str(self._root), master]
        with (self._root / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **crash},
            )
        assert self._process.stdout is not None
        self._known_pids: list[int] = json.loads(self._process.stdout.readline())["pids"]

    def start(self) -> None:
        """Up and known by its pids, before the first seed arms it."""
        if self._process is None:
            self._start()

    def stop(self) -> None:
        """Kill what runs."""
        if self._process is not None:
            for pid in self._known_pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._end()
        if self._cluster is not None:
            self._cluster.stop()

    def _end(self) -> None:
        assert self._process is not None
        with self._process as process:  # closes its pipes
            process.wait()
        self._process = None


@dataclass(frozen=True)
class TableUnderTest:
    """What a stream writes, and how it is read."""

    path: str
    table_format: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, str]:
        """The options of its format."""
        return {"path": self.path, "tableFormat": self.table_format, **self.options}

    def rows(self) -> list[Row]:
        """Every row that the table has by its own log."""
        table = open_table(parse_options(self.given, streaming=True).location, self.table_format)
        return [row for file in table.files() for row in _rows_of(table.place.source(table.read_path(file)))]

    def rows_by_others(self) -> list[Row]:
        """Those that a program reads that knows the format, or nothing but a folder of Parquet files."""
        if self.table_format == "delta":
            options = parse_options(self.given, streaming=True).location.open().library_options()
            dataset = DeltaTable(self.path, storage_options=options).to_pyarrow_dataset()
            return _rows_in(dataset.to_table(columns=["queueId", "queueOffset", "body"]))
        if self.table_format == "iceberg" and self.options:
            keys = {"s3.endpoint": self.options["s3.endpoint"], "s3.region": "us-east-1"}
            keys |= dict.fromkeys(("s3.access-key-id", "s3.secret-access-key"), "any")
            catalog = load_catalog("rocketlake", type="sql", uri=self.options["catalog.uri"], **keys)
            return _rows_in(catalog.load_table(f"lake.{self.path.rpartition('/')[2]}").scan().to_arrow())
        if self.table_format == "parquet" and not self.options:
            folder = Path(self.path)
            files = [file.relative_to(folder) for file in folder.rglob("*.parquet")]
            shown = [file for file in files if not any(part[0] in "._" for part in file.parts)]
            return [row for file in shown for row in _rows_of(folder / file)]
        return self.rows()  # it has no other reader: a list of files, a table without a catalog


def table_rows(folder: Path, table_format: str) -> list[Row]:
    """Every row of a table in a folder, as others read it."""
    return TableUnderTest(str(folder), table_format).rows_by_others()


def _rows_of(source: Any) -> list[Row]:
    return _rows_in(pq.ParquetFile(source).read(["queueId", "queueOffset", "body"]))


def _rows_in(rows: pa.Table) -> list[Row]:
    columns = rows.select(["queueId", "queueOffset", "body"]).to_pydict()
    places = zip(columns["queueId"], columns["queueOffset"], strict=True)
    return list(zip(places, columns["body"], strict=True))


def run_seed(plan: Plan, cluster: Cluster, spark: Spark, root: Path, bucket: Mapping[str, str] | None = None) -> str:
    """What happened, in one line. AssertionError if the table is not the topic.

    `bucket`: the options of an S3 server that has the bucket `kills`; the table lies there.
    """
    topic = f"kills-{plan.seed}"
    folder = root / topic
    table = TableUnderTest(str(folder / "table"), plan.table_format)
    if bucket is not None:
        catalog = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{root}/catalog-{plan.seed}.db"}
        options = {**bucket, **(catalog if plan.table_format == "iceberg" else {})}
        table = TableUnderTest(f"s3://kills/{topic}", plan.table_format, options)
    job = {
        "namesrv": cluster.namesrv,
        "topic": topic,
        "batchRows": plan.batch_rows,
        "table": table.given,
        "checkpoint": str(folder / "checkpoint"),
    }
    spark.start()
    with Producer("kills", namesrv=cluster.namesrv) as producer:
        sent = _send(producer, topic, range(plan.messages))
        tries = _stream_until_done(plan, cluster, spark, job)
        sent |= _send(producer, topic, range(plan.messages, plan.messages + 50))
        spark.disarm()
        tries += _stream_until_done(plan, cluster, spark, job, calm=True)
    rows, others = table.rows(), table.rows_by_others()
    assert sorted(rows) == sorted(others), f"{plan}: others read {len(others)} rows, not {len(rows)}"
    again = [place for place, count in Counter(place for place, _ in rows).items() if count > 1]
    assert not again, f"{plan}: {len(again)} rows are there twice, such as {again[:3]}"
    found = dict(rows)
    missing = sent.keys() - found.keys()
    assert not missing, f"{plan}: {len(missing)} of {len(sent)} messages are missing, such as {sorted(missing)[:3]}"
    wrong = [place for place, body in sent.items() if found[place] != body]
    assert not wrong, f"{plan}: other bodies at {wrong[:3]}"
    # A send that was tried again after its answer was lost is stored twice, and is two messages.
    bodies = set(sent.values())
    assert all(body in bodies for body in found.values()), f"{plan}: rows that nobody sent"
    shutil.rmtree(folder)
    return f"{plan.table_format} {plan.victim} {plan.point}@{plan.crash_at}: {len(found)} rows, {tries} runs"


def _send(producer: Producer, topic: str, numbers: range) -> dict[tuple[int, int], bytes]:
    """Place -> body of what was acknowledged."""
    places: dict[tuple[int, int], bytes] = {}
    for number in numbers:
        body = b"%d" % number
        result = producer.send(Message(topic, body))
        places[result.queue.queue_id, result.queue_offset] = body
    return places


def _stream_until_done(plan: Plan, cluster: Cluster, spark: Spark, job: dict[str, Any], *, calm: bool = False) -> int:
    killer: threading.Timer | None = None
    if not calm and plan.victim == "broker":
        killer = threading.Timer(plan.delay, lambda: (cluster.broker.kill(), cluster.broker.start()))
        killer.start()
    elif not calm:
        spark.arm(plan.point, plan.crash_at, plan.victim)
    outcomes = [spark.run(job)]
    while outcomes[-1] != "done":
        assert len(outcomes) < TRIES_MAX, f"{plan}: not done: {outcomes}"
        outcomes.append(spark.run(job))
    if killer is not None:
        killer.join()
    return len(outcomes)
