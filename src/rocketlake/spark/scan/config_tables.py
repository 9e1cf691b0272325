"""Tables `offsets`, `topics` and `checkpoint`: the files that a broker keeps beside its log.

Owns        their columns and rows.
Must not know   messages.

Files: docs/internals/store_layout.md; their JSON is fastjson's dialect (base/java/json_text.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.types import BooleanType, IntegerType, LongType, MapType, StringType, TimestampType

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.java.json_text import TEXT_BYTES_MAX, JsonError, parse
from rocketlake.spark.scan.checkpoint import read_checkpoint
from rocketlake.spark.scan.messages import store_paths
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.schema import MS_MAX, MS_MIN, Columns
from rocketlake.store.offset_files import queue_folders
from rocketlake.store.reader import StoreReader

__all__ = [
    "CHECKPOINT_COLUMNS", "OFFSET_COLUMNS", "TOPIC_COLUMNS", "checkpoint_rows", "offset_rows", "read_table",
    "topic_rows",
]  # fmt: skip

OFFSET_COLUMNS: Columns = {
    "consumerGroup": (StringType(), "consumer group"),
    "topic": (StringType(), "topic"),
    "queueId": (IntegerType(), "queue"),
    "committedOffset": (LongType(), "next queue offset the group will read"),
    "minOffset": (LongType(), "first queue offset there is, null if the queue has no files"),
    "maxOffset": (LongType(), "queue offset of the next message, null if the queue has no files"),
    "lag": (LongType(), "messages behind: maxOffset - committedOffset"),
}
TOPIC_COLUMNS: Columns = {
    "topic": (StringType(), "topic"),
    "perm": (IntegerType(), "4 read + 2 write + 1 inherit"),
    "readQueueNums": (IntegerType(), "queues to read"),
    "writeQueueNums": (IntegerType(), "queues to write"),
    "order": (BooleanType(), "true: the topic is strictly ordered"),
    "topicSysFlag": (IntegerType(), "unit flags"),
    "attributes": (MapType(StringType(), StringType()), "attributes, as message.type"),
    "queues": (IntegerType(), "queues that have files"),
    "isConfigured": (BooleanType(), "true: the topic stands in topics.json; false: only queues of it were found"),
}
CHECKPOINT_COLUMNS: Columns = {
    "physicTimestamp": (TimestampType(), "messages stored until then are safe in the log"),
    "logicsTimestamp": (TimestampType(), "... in the consume queues"),
    "indexTimestamp": (TimestampType(), "... in the key index"),
    "masterFlushedOffset": (LongType(), "master's flushed offset (replication)"),
    "confirmOffset": (LongType(), "the log is safe up to here; 0 if not kept"),
    "isOpen": (BooleanType(), "the file `abort` is there: a broker runs, or was killed"),
}

Row = dict[str, Any]


def read_table(path: Path) -> dict[str, Any]:
    """A configuration file, its backup if it is missing or broken; empty if there is neither. StoreError."""
    broken: Exception | None = None
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            if candidate.stat().st_size > TEXT_BYTES_MAX:
                raise StoreError(f"a table of more than {TEXT_BYTES_MAX} bytes", path=str(candidate))
            value = parse(candidate.read_bytes().decode(errors="replace"))
        except FileNotFoundError:
            continue
        except JsonError as error:
            broken = error
            continue
        if isinstance(value, dict):
            return value
    if broken is not None:
        raise StoreError(
            f"this is no table of a broker: {broken}", path=str(path), hint="give another copy of the store"
        )
    return {}


def _part(table: dict[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name)
    return found if isinstance(found, dict) else {}


def offset_rows(options: ScanOptions) -> Iterator[Row]:
    """Progress of every group in every queue."""
    paths = store_paths(options)
    has_log = PosixFiles().is_dir(paths.commit_log)
    reader = StoreReader(paths.root, commit_log=paths.commit_log, with_gaps=True) if has_log else None
    ranges: dict[tuple[str, int], tuple[int, int]] = {}
    for key, queues in _part(read_table(paths.config / "consumerOffset.json"), "offsetTable").items():
        topic, _, group = key.partition("@")
        for number, offset in queues.items() if isinstance(queues, dict) else ():
            queue = topic, int(number)
            if options.topics and topic not in options.topics:
                continue
            row: Row = {"consumerGroup": group, "topic": topic, "queueId": int(number), "committedOffset": int(offset)}
            if reader is not None and reader.queue_files(*queue) is not None:
                if queue not in ranges:
                    ranges[queue] = reader.written_range(*queue)
                low, end = ranges[queue]
                row |= {"minOffset": low, "maxOffset": end, "lag": end - int(offset)}
            yield row
    if reader is not None:
        reader.close()


def topic_rows(options: ScanOptions) -> Iterator[Row]:
    """Every topic that is configured or has queues."""
    paths = store_paths(options)
    queues: dict[str, int] = {}
    for topic, _queue_id, _folder in queue_folders(paths.consume_queue, PosixFiles()):
        queues[topic] = queues.get(topic, 0) + 1
    configured = _part(read_table(paths.config / "topics.json"), "topicConfigTable")
    for topic in sorted({*configured, *queues}):
        if options.topics and topic not in options.topics:
            continue
        config = configured.get(topic) or {}
        row: Row = {"topic": topic, "queues": queues.get(topic, 0), "isConfigured": topic in configured}
        for name in ("perm", "readQueueNums", "writeQueueNums", "topicSysFlag", "order"):
            row[name] = config.get(name)
        row["attributes"] = {str(key): str(value) for key, value in (config.get("attributes") or {}).items()}
        yield row


def checkpoint_rows(options: ScanOptions) -> Iterator[Row]:
    """One row, none without a checkpoint."""
    paths = store_paths(options)
    found = read_checkpoint(paths.checkpoint)
    if found is not None:
        yield {
            "physicTimestamp": _micros(found.physic_ms),
            "logicsTimestamp": _micros(found.logics_ms),
            "indexTimestamp": _micros(found.index_ms),
            "masterFlushedOffset": found.master_flushed_offset,
            "confirmOffset": found.confirm_offset,
            "isOpen": paths.abort.exists(),
        }


def _micros(ms: int) -> int | None:
    return ms * 1000 if MS_MIN <= ms <= MS_MAX else None
