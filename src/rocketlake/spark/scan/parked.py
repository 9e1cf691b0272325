"""Tables `half` and `schedule`: messages that wait in a topic of the broker's own, and whether they still wait.

Owns        their columns, the state of half messages (ended or not) and of delayed ones (delivered or not).
Must not know   how records are found and read (messages.py).

Half messages: a message of RMQ_SYS_TRANS_OP_HALF_TOPIC with tag `d` names queue offsets that were ended; messages
before the progress of CID_RMQ_SYS_TRANS were ended, too, or stored again behind it. Delayed messages: a queue of
SCHEDULE_TOPIC_XXXX for each level, delivered up to the offset in delayOffset.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, TimestampType

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.model import property_names
from rocketlake.spark.columns import times
from rocketlake.spark.scan.config_tables import read_table
from rocketlake.spark.scan.messages import MESSAGE_COLUMNS, SCHEDULE_TOPIC, PartRead, store_paths
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import QueueSlice, ScanPart
from rocketlake.spark.scan.place_read import QUEUE_ENTRIES
from rocketlake.spark.scan.wanted import Wanted
from rocketlake.spark.schema import MS_MIN, Columns, arrow_schema, chosen_schema
from rocketlake.store.consume_queue.entry import ENTRY_SIZE
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.reader import StoreReader

__all__ = ["HALF_COLUMNS", "SCHEDULE_COLUMNS", "parked_batches", "parked_parts"]

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HALF_GROUP = "CID_RMQ_SYS_TRANS"

_REAL: Columns = {
    "realTopic": (StringType(), "topic it was sent to"),
    "realQueueId": (IntegerType(), "queue it was sent to"),
}
HALF_COLUMNS: Columns = {
    **MESSAGE_COLUMNS,
    **_REAL,
    "producerGroup": (StringType(), "group that is asked about it"),
    "checkTimes": (IntegerType(), "how often it was asked about"),
    "state": (StringType(), "`open`: its producer has not ended it; `ended`: committed, rolled back or stored again"),
}
SCHEDULE_COLUMNS: Columns = {
    **MESSAGE_COLUMNS,
    **_REAL,
    "dueTimestamp": (TimestampType(), "time of delivery, from its queue entry"),
    "state": (StringType(), "`waiting` or `delivered`"),
}

_TEXTS = {"realTopic": property_names.REAL_TOPIC, "producerGroup": property_names.PRODUCER_GROUP}
_NUMBERS = {
    "realQueueId": property_names.REAL_QUEUE_ID,
    "checkTimes": property_names.TRANSACTION_CHECK_TIMES,
}


def parked_parts(options: ScanOptions) -> Iterator[ScanPart]:
    """A part for each queue of the table's topic."""
    paths = store_paths(options)
    topic = HALF_TOPIC if options.table == "half" else SCHEDULE_TOPIC
    with closing(StoreReader(paths.root, commit_log=paths.commit_log, with_gaps=True)) as reader:
        for queue_id in reader.queue_ids(topic):
            start, end = reader.written_range(topic, queue_id)
            if end > start:
                yield QueueSlice(topic, queue_id, start, end)


def parked_batches(options: ScanOptions, part: QueueSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages of one queue with their state."""
    names = dict.fromkeys([name for name in schema.names if name in MESSAGE_COLUMNS])
    names |= dict.fromkeys(("queueOffset", "properties"))
    inner = arrow_schema(chosen_schema(",".join(names), MESSAGE_COLUMNS))
    is_half = part.topic == HALF_TOPIC
    done = _HalfState(options, part.queue_id) if is_half else None
    delivered = 0 if is_half else _delivered(options, part.queue_id)
    for batch in PartRead(options, Wanted(), inner).batches(part):
        offsets = np.asarray(batch.column("queueOffset"))
        properties = [dict(pairs) for pairs in batch.column("properties").to_pylist()]
        if done is not None:
            state = ["ended" if done.is_ended(offset) else "open" for offset in offsets.tolist()]
        else:
            state = np.where(offsets < delivered, "delivered", "waiting").tolist()
        columns: dict[str, pa.Array] = {"state": pa.array(state, pa.string())}
        for name in schema.names:
            if name in _TEXTS:
                columns[name] = pa.array([each.get(_TEXTS[name]) for each in properties], pa.string())
            elif name in _NUMBERS:
                columns[name] = pa.array([_number(each.get(_NUMBERS[name])) for each in properties], pa.int32())
            elif name == "dueTimestamp":
                columns[name] = _due(options, part, offsets)
        found = [columns[name] if name in columns else batch.column(name) for name in schema.names]
        yield pa.RecordBatch.from_arrays(found, schema=schema)


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= 9 and text.isascii() and text.isdigit() else None


def _due(options: ScanOptions, part: QueueSlice, offsets: np.ndarray[Any, Any]) -> pa.Array:
    """Delivery times, which stand where other queues have the tag's hash."""
    folder = store_paths(options).consume_queue / part.topic / str(part.queue_id)
    ms = []
    with closing(OffsetFiles(folder, PosixFiles())) as files:
        for offset in offsets.tolist():
            data = files.read(offset * ENTRY_SIZE, ENTRY_SIZE)
            is_whole = len(data) == ENTRY_SIZE
            ms.append(int(np.frombuffer(data, dtype=QUEUE_ENTRIES)[0]["tag"]) if is_whole else MS_MIN - 1)
    return times(np.array(ms, np.int64))


def _delivered(options: ScanOptions, queue_id: int) -> int:
    """Queue offset up to which a level was delivered; level k waits in queue k - 1."""
    table = read_table(store_paths(options).config / "delayOffset.json").get("offsetTable")
    return int(table.get(str(queue_id + 1), 0)) if isinstance(table, dict) else 0


class _HalfState:
    """The half messages of one queue that were ended."""

    def __init__(self, options: ScanOptions, queue_id: int) -> None:
        paths = store_paths(options)
        table = read_table(paths.config / "consumerOffset.json").get("offsetTable")
        offsets = table.get(f"{HALF_TOPIC}@{HALF_GROUP}") if isinstance(table, dict) else None
        self._passed = int(offsets.get(str(queue_id), 0)) if isinstance(offsets, dict) else 0
        self._ended: set[int] = set()
        with closing(StoreReader(paths.root, commit_log=paths.commit_log, with_gaps=True)) as reader:
            start, end = reader.written_range(OP_TOPIC, queue_id)
        schema = arrow_schema(chosen_schema("tags,body", MESSAGE_COLUMNS))
        if end > start:
            for batch in PartRead(options, Wanted(), schema).batches(QueueSlice(OP_TOPIC, queue_id, start, end)):
                for tag, body in zip(batch.column("tags").to_pylist(), batch.column("body").to_pylist(), strict=True):
                    if tag == "d" and body:
                        self._ended |= {
                            int(part) for part in body.decode("ascii", "replace").split(",") if part.isdigit()
                        }

    def is_ended(self, offset: int) -> bool:
        """True if this half message was ended."""
        return offset < self._passed or offset in self._ended
