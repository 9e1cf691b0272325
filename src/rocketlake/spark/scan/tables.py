"""The tables of format("rocketmq_store"): columns of each, its parts and its rows.

Owns        the modules that read each table.
Must not know   options beyond the table's name, Spark's reader classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from rocketlake.spark.scan import config_tables, entry_tables, parked
from rocketlake.spark.scan.messages import MESSAGE_COLUMNS, PartRead, store_paths
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import IndexSlice, QueueSlice, ScanPart, WholeTable
from rocketlake.spark.scan.plan import plan_messages
from rocketlake.spark.scan.wanted import Wanted
from rocketlake.spark.schema import Columns
from rocketlake.store.reader import StoreReader

__all__ = ["COLUMNS_OF", "batches_of", "parts_of"]

COLUMNS_OF: dict[str, Columns] = {
    "messages": MESSAGE_COLUMNS,
    "consumequeue": entry_tables.QUEUE_COLUMNS,
    "index": entry_tables.INDEX_COLUMNS,
    "offsets": config_tables.OFFSET_COLUMNS,
    "half": parked.HALF_COLUMNS,
    "topics": config_tables.TOPIC_COLUMNS,
    "checkpoint": config_tables.CHECKPOINT_COLUMNS,
    "schedule": parked.SCHEDULE_COLUMNS,
}
_SMALL: dict[str, Callable[[ScanOptions], Iterator[dict[str, Any]]]] = {
    "offsets": config_tables.offset_rows,
    "topics": config_tables.topic_rows,
    "checkpoint": config_tables.checkpoint_rows,
}
_PARTS: dict[str, Callable[[ScanOptions], Iterator[ScanPart]]] = {
    "consumequeue": entry_tables.queue_parts,
    "index": entry_tables.index_parts,
    "half": parked.parked_parts,
    "schedule": parked.parked_parts,
}
_ROWS_A_BATCH = 8192


def parts_of(options: ScanOptions, wanted: Wanted) -> list[ScanPart]:
    """The parts of the tasks of a read. StoreError without a store; OSError."""
    if options.table in _SMALL:
        return [WholeTable()]
    if options.table in _PARTS:
        return [*_PARTS[options.table](options)]
    paths = store_paths(options)
    reader = StoreReader(paths.root, commit_log=paths.commit_log, with_gaps=True)
    try:
        return plan_messages(reader, wanted, options)
    finally:
        reader.close()


def batches_of(options: ScanOptions, wanted: Wanted, schema: pa.Schema, part: ScanPart) -> Iterator[pa.RecordBatch]:
    """The rows of one part."""
    if isinstance(part, WholeTable):
        rows = [*_SMALL[options.table](options)]
        for at in range(0, len(rows), _ROWS_A_BATCH):
            chunk = rows[at : at + _ROWS_A_BATCH]
            columns = [pa.array([row.get(each.name) for row in chunk], each.type) for each in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    elif isinstance(part, IndexSlice):
        yield from entry_tables.index_batches(options, part, schema)
    elif options.table == "consumequeue" and isinstance(part, QueueSlice):
        yield from entry_tables.queue_batches(options, part, schema)
    elif options.table in ("half", "schedule") and isinstance(part, QueueSlice):
        yield from parked.parked_batches(options, part, schema)
    else:
        yield from PartRead(options, wanted, schema).batches(part)
