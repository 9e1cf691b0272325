"""Messages as the stream brings them, and a driver in this process that calls the writer as Spark does."""

from __future__ import annotations

import datetime
import pickle
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType

from rocketlake.base.crash_point import struck_by
from rocketlake.base.errors import RocketLakeError
from rocketlake.spark.lake.data_source import RocketMQLakeDataSource
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.reader import read_file
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.places.location import Location
from rocketlake.spark.schema import full_schema
from tests.faulty_s3 import FaultyS3, faulty_s3

SCHEMA = full_schema()
DAY = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
Row = dict[str, Any]
Task = Sequence[Row]


def message(offset: int, *, queue: int = 0, topic: str = "orders", body: bytes | None = b"x", **more: Any) -> Row:
    """A row of format("rocketmq")."""
    row: Row = dict.fromkeys(SCHEMA.fieldNames())
    row |= {
        "topic": topic,
        "brokerName": "broker-a",
        "queueId": queue,
        "queueOffset": offset,
        "storeTimestamp": DAY + datetime.timedelta(seconds=offset),
        "tags": "A",
        "reconsumeTimes": 0,
        "properties": [("TAGS", "A"), ("k", str(offset))],
        "body": body,
    }
    return row | more


def batch_of(rows: Sequence[Row], schema: StructType = SCHEMA) -> pa.RecordBatch:
    """As Spark hands them to a task."""
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow(schema))


class Killed(BaseException):
    """The process ended here, as by kill -9: nothing of ours may catch it."""


class Query:
    """One streaming query with its checkpoint. Each call has a writer of its own, options travel by pickle."""

    def __init__(self, folder: Path | str, query: str = "q-1", schema: StructType = SCHEMA, **options: str) -> None:
        self.options = {"path": str(folder), "checkpointLocation": f"{folder}/none"} | options
        self.query = query
        self.schema = schema
        self.next_batch = 0

    def writer(self) -> Any:
        source = pickle.loads(pickle.dumps(RocketMQLakeDataSource(self.options)))  # noqa: S301  as Spark does
        return pickle.loads(pickle.dumps(source.streamWriter(schema=self.schema, overwrite=False)))  # noqa: S301

    def task(self, rows: Task, *, size: int = 7) -> Any:
        """One attempt; its message as the driver gets it."""
        return self.task_of([batch_of(rows[at : at + size], self.schema) for at in range(0, len(rows), size)])

    def task_of(self, batches: Sequence[pa.RecordBatch]) -> Any:
        """The same for rows that Python has no values for."""
        context = TaskContext._getOrCreate()
        context._localProperties = {
            "sql.streaming.queryId": self.query,
            "streaming.sql.batchId": str(self.next_batch),
        }
        return pickle.loads(pickle.dumps(self.writer().write(iter(batches))))  # noqa: S301

    def commit(self, messages: Sequence[Any]) -> None:
        self.writer().commit(list(messages), self.next_batch)

    def abort(self, messages: Sequence[Any]) -> None:
        self.writer().abort(list(messages), self.next_batch)

    def run(self, *tasks: Task) -> None:
        """A batch without trouble."""
        self.commit([self.task(rows) for rows in tasks])
        self.next_batch += 1

    def run_with_trouble(
        self, tasks: Sequence[Task], rng: random.Random, crash: str = "", *, restart_on: str = ""
    ) -> None:
        """A batch in any order of calls Spark may make, until it is committed; `crash` kills it there once.

        `restart_on`: a pattern of errors with which the query fails and is started again.
        """
        while True:
            try:
                with struck_by(_strike_at(crash, rng.randrange(1, 4)) if crash else lambda _: None):
                    self._attempt(tasks, rng)
            except Killed:
                crash = ""
                continue
            except RocketLakeError as error:
                if not (restart_on and re.search(restart_on, str(error))):
                    raise
                continue
            except ConnectionError:
                continue  # the query failed and was started again
            self.next_batch += 1
            return

    def _attempt(self, tasks: Sequence[Task], rng: random.Random) -> None:
        messages: list[Any] = []
        for rows in tasks:
            if rng.random() < 0.1:
                self.task(rows)  # a speculative twin or a lost executor: its message never comes
            messages.append(self.task(rows, size=rng.choice([1, 3, 50])))
        trouble = rng.random()
        if trouble < 0.1:
            self.abort([None] * len(messages))  # stopped in mid-batch
            raise ConnectionError
        if trouble < 0.2:
            self.abort([messages[0], *[None] * (len(messages) - 1)])
            raise ConnectionError
        try:
            self.commit(messages)
        except RocketLakeError:
            with suppress(RocketLakeError):
                self.abort(messages)
            raise
        if trouble < 0.3:
            self.commit(messages)
        if trouble < 0.4:
            self.abort(messages)  # commit seemed to fail
            raise ConnectionError


def _strike_at(point: str, number: int) -> Callable[[str], None]:
    passes = 0

    def strike(name: str) -> None:
        nonlocal passes
        if name == point:
            passes += 1
            if passes == number:
                raise Killed(name)

    return strike


def table_rows(folder: Path | Location) -> list[Row]:
    """All rows of the table by its own log."""
    description = Descriptions(folder).latest()
    if description is None:
        return []
    table = open_table(folder, description.table_format)
    schema = arrow(description.schema)
    rows: list[Row] = []
    for file in table.files():
        for batch in read_file(table.place.source(table.read_path(file)), file, schema):
            rows += batch.to_pylist()
    return rows


def places(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """Which messages these are, sorted: a doubled one is there twice."""
    return sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in rows)


@pytest.fixture(autouse=True)
def _no_task_context() -> Iterator[None]:
    yield
    TaskContext._setTaskContext(None)


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder where fsync costs nothing, if this machine has one: for tests of many histories."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="rocketlake-test-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    """An S3 server that answers as it should until it is told to begin faults."""
    with faulty_s3() as server:
        yield server


@pytest.fixture
def settings(server: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The options by which a table lies on that server."""
    monkeypatch.setenv("TEST_S3_KEY", "any")
    keys = dict.fromkeys(("s3.access-key-id", "s3.secret-access-key"), "env:TEST_S3_KEY")
    return {"s3.endpoint": server.address, **keys}
