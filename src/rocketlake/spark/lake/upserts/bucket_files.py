"""The one data file of a bucket: its rows, and in its footer the deleted keys.

Owns        which live file is which bucket's, reading and writing it, the form of deletes in a footer.
Must not know   which row is newer (newest.py), commits.

Deletes lie in the footer so that they are committed with the rows and replaced with them, in every format.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import PurePath
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.description import SIDECAR
from rocketlake.spark.lake.file_writer import PartitionWriter
from rocketlake.spark.lake.merge_rule import MergeRule
from rocketlake.spark.lake.reader import read_opened
from rocketlake.spark.lake.tables.table import DataFile, LakeTable, bucket_of, data_file_name
from rocketlake.spark.lake.upserts.newest import Bucket, empty_graves, laid_over
from rocketlake.spark.places.place import Writing

__all__ = ["BucketFiles", "changes_path", "live_buckets"]

_GRAVES = "rocketlake.deleted"
_ONE_FILE = 1 << 62
_ROWS = 1 << 16


def live_buckets(table: LakeTable, rule: MergeRule) -> dict[int, DataFile]:
    """Bucket -> its file. StoreError if the table has files that no upsert of this kind wrote."""
    found: dict[int, DataFile] = {}
    for file in table.files():
        bucket = bucket_of(file.name)
        if bucket is None or bucket >= rule.buckets or bucket in found:
            raise StoreError(
                "a table that is kept up to date by key has a file that was not written so",
                path=f"{table.place.url()}: {file.name}",
                hint="let one query write to it, and no other program; copy its rows into a new table to go on",
            )
        found[bucket] = file
    return found


def changes_path(table: LakeTable, name: str) -> PurePath:
    """Where a task puts changes that the driver lays over the table."""
    folder = table.place.path / SIDECAR / "changes"
    table.place.make_folder(folder)
    return folder / name


class BucketFiles:
    """The bucket files that one attempt writes."""

    def __init__(
        self, table: LakeTable, rule: MergeRule, schema: pa.Schema, query: str, batch: int, compression: str = "zstd"
    ) -> None:
        self.paths: list[PurePath] = []
        self._table = table
        self._rule = rule
        self._schema = schema
        self._compression = compression
        self._name: Callable[[int], str] = lambda bucket: data_file_name(query, batch, self._attempt, bucket)
        self._attempt = uuid4().hex

    def rewritten(
        self, bucket: int, base: DataFile | None, path: PurePath | None, changes: pa.Table
    ) -> DataFile | None:
        """The bucket's new file, with these changes laid over `base`, which lies at `path`; None if nothing changes."""
        known = self._read(base, path) if base is not None and path is not None else self._empty()
        made = laid_over(self._rule, known, changes, SystemClock().now_ms())
        return None if made is None else self._write(bucket, made)

    def write_changes(self, changes: pa.Table) -> DataFile:
        """A file that is no part of the table."""

        def begin() -> tuple[str, Writing]:
            name = self._name(0)
            self.paths.append(changes_path(self._table, name))
            return name, self._table.place.writer(self.paths[-1])

        return self._written(PartitionWriter((), changes.schema, begin, self._compression, _ONE_FILE), changes)

    def _empty(self) -> Bucket:
        return Bucket(self._schema.empty_table(), empty_graves(self._rule, self._schema))

    def _read(self, file: DataFile, path: PurePath) -> Bucket:
        with pq.ParquetFile(self._table.place.source(path)) as parquet:
            batches = read_opened(parquet, file, self._schema, whole_file=True, rows=_ROWS)
            rows = pa.Table.from_batches(batches, self._schema)
            text = (parquet.metadata.metadata or {}).get(_GRAVES.encode())
        empty = empty_graves(self._rule, self._schema)
        if text is None:
            return Bucket(rows, empty)
        with pa.ipc.open_stream(base64.b64decode(text)) as stream:
            return Bucket(rows, stream.read_all().cast(empty.schema))

    def _write(self, bucket: int, made: Bucket) -> DataFile:
        def begin() -> tuple[str, Writing]:
            name = self._name(bucket)
            self.paths.append(self._table.file_path(name, ()))
            return name, self._table.place.writer(self.paths[-1])

        writer = PartitionWriter((), self._schema, begin, self._compression, _ONE_FILE)
        if len(made.graves):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(
                sink, made.graves.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            ) as stream:
                stream.write_table(made.graves)
            writer.footer = {_GRAVES: base64.b64encode(sink.getvalue()).decode()}
        return self._written(writer, made.rows)

    def _written(self, writer: PartitionWriter, rows: pa.Table) -> DataFile:
        try:
            # A bucket whose keys are all deleted has a file without rows.
            for batch in rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]:
                writer.add(batch)
            (file,) = writer.close()
        except BaseException:
            writer.abort()
            raise
        return file

    def discard(self, paths: Sequence[PurePath]) -> None:
        """Delete files that nobody needs."""
        self._table.place.delete(paths)
