"""The changes of one task for one table: laid over a bucket by the task itself, or staged for the driver.

Owns        which of the two, rows that have no key or no version.
Must not know   how a bucket is rewritten (bucket_files.py), bodies, the driver.

A task that has all its rows in the bucket of its own number rewrites that bucket: after `repartition(mergeBuckets,
keys)` each task has one. No other task takes that bucket. Should another one have rows of it, the driver lays them over
what this task wrote: the result does not depend on the order.
"""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.spark.lake.merge_rule import MergeRule
from rocketlake.spark.lake.messages import TableWritten
from rocketlake.spark.lake.tables.table import LakeTable
from rocketlake.spark.lake.upserts.bucket_files import BucketFiles, live_buckets
from rocketlake.spark.lake.upserts.newest import DELETED, deletes, newest
from rocketlake.spark.lake.upserts.spark_hash import buckets_of

__all__ = ["Upserts"]

_GATHERED_MAX = 32


class Upserts:
    """Rows are gathered, one a key."""

    def __init__(self, rule: MergeRule, partition: int | None) -> None:
        self.paths: list[PurePath] = []
        self._rule = rule
        self._partition = partition
        self._changes: list[pa.Table] = []

    def refused(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Rows without key or version, with the reason."""
        bad: dict[int, str] = {}
        for name in (*self._rule.keys, self._rule.version):
            column = rows.column(rows.schema.get_field_index(name))
            for row in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)) if column.null_count else ():
                bad[int(row)] = f"column '{name}' is null, and the table is kept up to date by it"
        return bad

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of the table's schema."""
        rows = rows.append_column(DELETED, deletes(self._rule, rows))
        self._changes.append(pa.Table.from_batches([rows]))
        if len(self._changes) >= _GATHERED_MAX:
            self._changes = [self._reduced()]

    def _reduced(self) -> pa.Table:
        return newest(self._rule, pa.concat_tables(self._changes, promote_options="default"))

    def close(self, table: LakeTable, files: BucketFiles, written: TableWritten) -> None:
        """Write what there is to the files, and note it for the driver."""
        if not self._changes:
            return
        changes = self._reduced()
        buckets = buckets_of([changes.column(name) for name in self._rule.keys], self._rule.buckets)
        written.rule = self._rule
        if not (buckets == self._partition).all():
            written.changes.append(files.write_changes(changes))
            return
        bucket = int(buckets[0])
        base = live_buckets(table, self._rule).get(bucket)
        made = files.rewritten(bucket, base, table.read_path(base) if base else None, changes)
        if made is not None:
            written.files.append(made)
            written.replaced += [base] if base else []
