"""Table `messages`: records and damaged stretches of the log, as rows.

Owns        the columns about damage; the read of one part of the plan to its end, without deleted topics.
Must not know   how parts were chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.java.java_compat import string_hash
from rocketlake.model import sys_flag
from rocketlake.spark.columns import Records, record_batches
from rocketlake.spark.record_form import Bools
from rocketlake.spark.scan.dead import dead_rows, notes_of
from rocketlake.spark.scan.log_read import FRAME_STATUS, Stretch, read_log
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import LogRange, Places, QueueSlice, ScanPart
from rocketlake.spark.scan.place_read import QUEUE_ENTRIES, read_places, read_slice
from rocketlake.spark.scan.wanted import Wanted
from rocketlake.spark.schema import COLUMNS, Columns
from rocketlake.store.consume_queue.entry import ENTRY_SIZE
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.paths import StorePaths

__all__ = ["MESSAGE_COLUMNS", "SCHEDULE_TOPIC", "PartRead", "store_paths"]

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Its queue entries hold times of delivery in place of tags."""

MESSAGE_COLUMNS: Columns = COLUMNS | {
    "preparedOffset": (LongType(), "commit log offset of the half message that this one ended, 0 without one"),
    "recordSize": (IntegerType(), "bytes of the record in the log"),
    "crcOk": (BooleanType(), "true: the body has its checksum"),
    "frameStatus": (StringType(), "; ".join(f"`{name}`: {text}" for name, text in FRAME_STATUS.items())),
}
_OWN = frozenset({*MESSAGE_COLUMNS} - {*COLUMNS})
_PREPARED_OFFSET = 60, 2  # position without the hosts before it, and how many these are


def store_paths(options: ScanOptions) -> StorePaths:
    """Names of the store's files."""
    return StorePaths(Path(options.path), Path(options.commit_log_path) if options.commit_log_path else None)


@dataclass
class PartRead:
    """The reading of one part. `scanned` counts the records that were checked."""

    options: ScanOptions
    wanted: Wanted
    schema: pa.Schema
    scanned: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._paths = store_paths(self.options)
        self._log = OffsetFiles(self._paths.commit_log, PosixFiles(), with_gaps=True)
        self._deletions = notes_of(self._paths, fail_on_corrupt=self.options.fail_on_corrupt)

    def batches(self, part: ScanPart) -> Iterator[pa.RecordBatch]:
        """The rows. StoreError at damage with `failOnCorrupt`; OSError."""
        try:
            if isinstance(part, LogRange):
                yield from self._from_log(part)
            elif isinstance(part, QueueSlice):
                with closing(self._queue(part.topic, part.queue_id)) as queue:
                    found = read_slice(
                        self._log,
                        queue,
                        part,
                        fail_on_corrupt=self.options.fail_on_corrupt,
                        tag_codes=self._tag_codes(part.topic),
                    )
                    for records in found:
                        yield from self._rows(records, None)
            elif isinstance(part, Places):
                for records in read_places(self._log, part, fail_on_corrupt=False):
                    yield from self._rows(records, None)
        finally:
            self._log.close()

    def _tag_codes(self, topic: str) -> frozenset[int] | None:
        """Tag codes in the queue entries of wanted messages; None where entries hold other numbers."""
        tags = self.wanted.values("tags")
        if tags is None or topic == SCHEDULE_TOPIC or (self._paths.root / "consumequeue_ext").exists():
            return None
        return frozenset(string_hash(tag) for tag in tags)

    def _from_log(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        for found in read_log(self._log, part, fail_on_corrupt=self.options.fail_on_corrupt):
            if isinstance(found, Stretch):
                if self.options.all_frames and self._wants_stretch(found):
                    yield self._stretch_row(found)
                continue
            records = found.records
            if part.without:
                records = _without(records, part.without)
            if not found.is_searched:
                yield from self._rows(records, None)
                continue
            confirmed = self._confirmed(records)
            if self.options.all_frames:
                yield from self._rows(records, confirmed)
            else:
                yield from self._rows(records.take(confirmed), confirmed[confirmed])

    def _rows(self, records: Records, confirmed: Bools | None) -> Iterator[pa.RecordBatch]:
        """`confirmed`: of records found by searching, whether a queue names them; None for records in their place."""
        self.scanned += len(records)
        rows = self.wanted.rows(records)
        if rows is not None:
            records = records.take(rows)
            confirmed = None if confirmed is None else confirmed[rows]
        dead = dead_rows(records, self._deletions) if len(records) else None
        if dead is not None and not self.options.all_frames:
            records = records.take(~dead)
            confirmed = None if confirmed is None else confirmed[~dead]
            dead = None
        if not len(records):
            return
        if self.options.fail_on_corrupt:
            self._refuse_bad_bodies(records)
        extra = {name: _own_column(name, records, confirmed, dead) for name in self.schema.names if name in _OWN}
        yield from record_batches(records, self.options.broker_name, self.schema, lenient=True, extra=extra)

    def _refuse_bad_bodies(self, records: Records) -> None:
        if not bool(records.crc_ok.all()):
            place = int(records.physical_offsets[int(np.argmin(records.crc_ok))])
            raise StoreError(
                "the body of a message does not match its checksum",
                path=str(self._log.path(place)),
                offset=place,
                hint="set 'failOnCorrupt' = false to see it with crcOk = false",
            )

    # -- behind damage -------------------------------------------------------------------------------------------------

    def _queue(self, topic: str, queue_id: int) -> OffsetFiles:
        return OffsetFiles(self._paths.consume_queue / topic / str(queue_id), PosixFiles())

    def _confirmed(self, records: Records) -> Bools:
        """For each record, whether its consume queue names it. One by one: this is needed behind damage only."""
        rows = zip(
            records.topics.to_pylist(), records.queue_ids.tolist(), records.queue_offsets.tolist(),
            records.physical_offsets.tolist(), records.sizes.tolist(), records.sys_flags.tolist(), strict=True,
        )  # fmt: skip
        return np.array([self._is_named(*row) for row in rows], dtype=np.bool_)

    def _is_named(self, topic: str, queue_id: int, offset: int, place: int, size: int, flags: int) -> bool:
        if sys_flag.transaction_type(flags) in (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_ROLLBACK):
            return False
        if "/" in topic or "\0" in topic or topic in ("", ".", ".."):
            return False  # no topic of such a name has a folder, and the name must not lead out of the store
        with closing(self._queue(topic, queue_id)) as queue:
            data = queue.read(offset * ENTRY_SIZE, ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return False
        entry = np.frombuffer(data, dtype=QUEUE_ENTRIES)[0]
        return int(entry["place"]) == place and int(entry["size"]) == size

    # -- stretches -----------------------------------------------------------------------------------------------------

    def _wants_stretch(self, stretch: Stretch) -> bool:
        """True if a row for the stretch is wanted: all its columns but the place are null."""
        if self.wanted.sql92 or any(each.column != "commitLogOffset" for each in self.wanted.comparisons):
            return False
        low, high = self.wanted.bounds("commitLogOffset")
        values = self.wanted.values("commitLogOffset")
        return low <= stretch.position <= high and (values is None or stretch.position in values)

    def _stretch_row(self, stretch: Stretch) -> pa.RecordBatch:
        values = {
            "commitLogOffset": stretch.position,
            "recordSize": min(stretch.size, 2**31 - 1),
            "frameStatus": stretch.status,
            "brokerName": self.options.broker_name,
        }
        columns = [pa.array([values.get(each.name)], each.type) for each in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _without(records: Records, queues: tuple[tuple[str, int, int], ...]) -> Records:
    """Leave out the records that other parts read from their queues."""
    topics = records.topics.to_pylist()
    ends = {(topic, queue_id): end for topic, queue_id, end in queues}
    numbers = zip(topics, records.queue_ids.tolist(), records.queue_offsets.tolist(), strict=True)
    return records.take(
        np.array([offset >= ends.get((topic, queue), 0) for topic, queue, offset in numbers], dtype=np.bool_)
    )


def _own_column(name: str, records: Records, confirmed: Bools | None, dead: Bools | None) -> pa.Array:
    if name == "preparedOffset":
        return records.int64s(*_PREPARED_OFFSET)
    if name == "recordSize":
        return pa.array(records.sizes.astype(np.int32))
    if name == "crcOk":
        return pa.array(records.crc_ok)
    if confirmed is None and dead is None:
        return pa.repeat("ok", len(records))
    status = np.where(confirmed, "recovered", "unconfirmed") if confirmed is not None else np.full(len(records), "ok")
    return pa.array((status if dead is None else np.where(dead, "deleted", status)).tolist(), pa.string())
