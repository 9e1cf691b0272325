"""Tables `consumequeue` and `index`: the entries of the files derived from the log, unchanged.

Owns        their columns and rows.
Must not know   records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, TimestampType

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import UsageError
from rocketlake.spark.columns import times
from rocketlake.spark.scan.key_lookup import IndexFile, index_files
from rocketlake.spark.scan.messages import store_paths
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import IndexSlice, QueueSlice, ScanPart
from rocketlake.spark.scan.place_read import QUEUE_ENTRIES
from rocketlake.spark.schema import Columns
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER_SIZE
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.reader import StoreReader

__all__ = ["INDEX_COLUMNS", "QUEUE_COLUMNS", "index_batches", "index_parts", "queue_batches", "queue_parts"]

QUEUE_COLUMNS: Columns = {
    "topic": (StringType(), "topic"),
    "queueId": (IntegerType(), "queue"),
    "queueOffset": (LongType(), "position in the queue"),
    "commitLogOffset": (LongType(), "where the record lies"),
    "recordSize": (IntegerType(), "bytes of the record"),
    "tagsCode": (LongType(), "Java hash of the tag; in SCHEDULE_TOPIC_XXXX the time of delivery, epoch ms"),
}
INDEX_COLUMNS: Columns = {
    "file": (StringType(), "name of the index file"),
    "entry": (IntegerType(), "number of the entry, from 1"),
    "keyHash": (IntegerType(), "hash of topic#key"),
    "commitLogOffset": (LongType(), "where the record lies"),
    "storeTimestamp": (TimestampType(), "store time, in whole seconds from the start of the file"),
    "previousEntry": (IntegerType(), "the next older entry of the same slot, 0 for none"),
}
_ENTRIES_A_PART = 1 << 21
_ENTRIES_A_BATCH = 1 << 15


def queue_parts(options: ScanOptions) -> Iterator[ScanPart]:
    """All queues, in slices."""
    paths = store_paths(options)
    with closing(StoreReader(paths.root, commit_log=paths.commit_log, with_gaps=True)) as reader:
        for topic in reader.topics():
            if options.topics and topic not in options.topics:
                continue
            for queue_id in reader.queue_ids(topic):
                files = reader.queue_files(topic, queue_id)
                assert files is not None
                low, end = files.start // ENTRY_SIZE, reader.written_range(topic, queue_id)[1]
                files.close()
                for at in range(low, end, _ENTRIES_A_PART):
                    yield QueueSlice(topic, queue_id, at, min(end, at + _ENTRIES_A_PART))


def queue_batches(options: ScanOptions, part: QueueSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The entries of a slice, fillers left out."""
    folder = store_paths(options).consume_queue / part.topic / str(part.queue_id)
    with closing(OffsetFiles(folder, PosixFiles())) as queue:
        offset = part.start
        while offset < part.end:
            data = queue.read(offset * ENTRY_SIZE, min(part.end - offset, _ENTRIES_A_BATCH) * ENTRY_SIZE)
            entries = np.frombuffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE], dtype=QUEUE_ENTRIES)
            if not len(entries):
                break
            keep = np.flatnonzero(~((entries["size"] == FILLER_SIZE) & (entries["place"] == 0)))
            yield _batch(
                {
                    "topic": pa.repeat(part.topic, len(keep)),
                    "queueId": _numbers(np.full(len(keep), part.queue_id), np.int32),
                    "queueOffset": _numbers(offset + keep, np.int64),
                    "commitLogOffset": _numbers(entries["place"][keep], np.int64),
                    "recordSize": _numbers(entries["size"][keep], np.int32),
                    "tagsCode": _numbers(entries["tag"][keep], np.int64),
                },
                schema,
            )
            offset += len(entries)


def index_parts(options: ScanOptions) -> Iterator[ScanPart]:
    """All files, in slices. UsageError if they have another number of slots."""
    try:
        files = index_files(store_paths(options).index, options.index_slots)
    except ValueError as error:
        raise UsageError(str(error), hint="give the broker's setting with option 'maxHashSlotNum'") from None
    for file in files:
        file.close()
        for at in range(1, file.entries + 1, _ENTRIES_A_PART):
            yield IndexSlice(file.path.name, at, min(file.entries + 1, at + _ENTRIES_A_PART))


def index_batches(options: ScanOptions, part: IndexSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The entries of a slice."""
    with closing(IndexFile(store_paths(options).index / part.file, options.index_slots)) as file:
        for first in range(part.start, part.end, _ENTRIES_A_BATCH):
            entries = file.read(first, min(part.end - first, _ENTRIES_A_BATCH))
            ms = file.begin_ms + entries["seconds"].astype(np.int64) * 1000
            yield _batch(
                {
                    "file": pa.repeat(part.file, len(entries)),
                    "entry": _numbers(np.arange(first, first + len(entries)), np.int32),
                    "keyHash": _numbers(entries["hash"], np.int32),
                    "commitLogOffset": _numbers(entries["place"], np.int64),
                    "storeTimestamp": times(ms),
                    "previousEntry": _numbers(entries["previous"], np.int32),
                },
                schema,
            )


def _numbers(values: np.ndarray[Any, Any], kind: type) -> pa.Array:
    return pa.array(values.astype(kind))


def _batch(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
