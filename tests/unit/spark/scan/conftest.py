"""Stores written by our own broker's store, and the scan of them without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_record
from rocketlake.spark.pushdown import Comparison
from rocketlake.spark.scan.messages import PartRead
from rocketlake.spark.scan.options import ScanOptions, parse_options
from rocketlake.spark.scan.tables import COLUMNS_OF, batches_of, parts_of
from rocketlake.spark.scan.wanted import Wanted, wanted_of
from rocketlake.spark.schema import arrow_schema, chosen_schema
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.reader import StoreReader
from rocketlake.store.results import PutMessage, PutStatus

CONFIG = StoreConfig(
    commit_log_file_bytes=16384, consume_queue_file_bytes=2000, index_slots=31, index_entries=50,
    disk_warning_percent=99, disk_clean_forcibly_percent=98,
)  # fmt: skip
START_MS = 1_700_000_000_000


@dataclass
class Store:
    """A store on disk that a test writes into. Time moves only when the test moves it."""

    root: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))

    def __post_init__(self) -> None:
        self._store = MessageStore(self.root, CONFIG, files=PosixFiles(), clock=self.clock, workers=InlineWorker)
        asyncio.run(self._store.start())

    def put(self, topic: str, queue_id: int, body: bytes, **properties: str) -> int:
        """Store a message; its place in the log."""
        message = PutMessage(topic, queue_id, body, properties=property_text.encode(properties))
        result = self._store.put(message)
        assert result.status is PutStatus.OK, result.reason
        return result.physical_offset

    def delete(self, topic: str) -> None:
        """Delete a topic; the note of it is on disk on return."""

        async def delete() -> None:
            self._store.delete_topics([topic])

        asyncio.run(delete())

    def flush_queues(self) -> None:
        """Queue entries that wait in memory reach the files."""
        self._store.queues.flush()

    def stop(self) -> None:
        """An orderly stop; a second one does nothing."""
        asyncio.run(self._store.stop())

    @property
    def end(self) -> int:
        return self._store.max_physical_offset


@dataclass
class Scan:
    """What a scan found, and how much it looked at."""

    rows: list[dict[str, Any]]
    parts: list[Any]
    scanned: int

    @property
    def places(self) -> list[int]:
        return sorted(row["commitLogOffset"] for row in self.rows)


@dataclass
class Read:
    """A planned read of a table."""

    options: ScanOptions
    wanted: Wanted
    schema: pa.Schema
    parts: list[Any]


def planned(root: Path, *filters: Comparison, table: str = "messages", columns: str = "full", **options: Any) -> Read:
    """Plan as Spark's driver does, filters pushed."""
    given = {name.replace("_", "."): str(value) for name, value in options.items()}
    given.setdefault("maxHashSlotNum", str(CONFIG.index_slots))
    parsed = parse_options({"path": str(root), "table": table} | given)
    schema = arrow_schema(chosen_schema(columns, COLUMNS_OF[table]))
    wanted = wanted_of(parsed).also(filters)
    return Read(parsed, wanted, schema, parts_of(parsed, wanted))


def scan(root: Path, *filters: Comparison, table: str = "messages", **options: Any) -> Scan:
    """Read a table as Spark does."""
    plan = planned(root, *filters, table=table, **options)
    batches: list[pa.RecordBatch] = []
    scanned = 0
    for part in plan.parts:
        if table == "messages":
            read = PartRead(plan.options, plan.wanted, plan.schema)
            batches += read.batches(part)
            scanned += read.scanned
        else:
            batches += batches_of(plan.options, plan.wanted, plan.schema, part)
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(plan.schema)
    return Scan(pa.Table.from_batches(batches, schema=plan.schema).to_pylist(), plan.parts, scanned)


def truth(root: Path) -> list[dict[str, Any]]:
    """Every message as the broker's own reader gives it, in the order of the log."""
    reader = StoreReader(root)
    rows = []
    for entry in reader.scan_log():
        record = reader.record(entry.physical_offset)
        assert record is not None
        message = decode_record(record)
        rows.append(
            {
                "topic": message.topic,
                "queueId": message.queue_id,
                "queueOffset": message.queue_offset,
                "commitLogOffset": message.physical_offset,
                "keys": message.properties.get("KEYS"),
                "tags": message.properties.get("TAGS"),
                "properties": sorted(message.properties.items()),
                "body": message.body,
                "store_ms": message.store_ms,
                "recordSize": len(record),
            }
        )
    reader.close()
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    yield store
    store.stop()


@pytest.fixture(name="scan")
def _scan() -> Callable[..., Scan]:
    return scan


def first_batch(root: Path, *filters: Comparison, table: str) -> pa.RecordBatch:
    """As a query with a limit: the rest is not read."""
    plan = planned(root, *filters, table=table)
    with closing(batches_of(plan.options, plan.wanted, plan.schema, plan.parts[0])) as batches:
        return next(batches)


@pytest.fixture(name="first_batch")
def _first_batch() -> Callable[..., pa.RecordBatch]:
    return first_batch


@pytest.fixture(name="truth")
def _truth() -> Callable[[Path], list[dict[str, Any]]]:
    return truth
