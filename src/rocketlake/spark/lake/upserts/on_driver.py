"""The driver's part of an upsert: changes that tasks staged are laid over the table, bucket by bucket.

Owns        the buckets that are rewritten here, what the commit takes out and puts in.
Must not know   the order of Spark's calls, formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.merge_rule import MergeRule
from rocketlake.spark.lake.reader import read_file
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.table import BatchPart, DataFile, LakeTable, bucket_of
from rocketlake.spark.lake.upserts.bucket_files import BucketFiles, changes_path, live_buckets
from rocketlake.spark.lake.upserts.newest import DELETED, newest
from rocketlake.spark.lake.upserts.spark_hash import buckets_of

__all__ = ["forget_changes", "forget_superseded", "with_changes"]

_AT_ONCE = 4


def with_changes(table: LakeTable, part: BatchPart, rule: MergeRule, description: TableDescription) -> BatchPart:
    """The part with staged changes laid over the table: what is committed then."""
    schema = arrow(description.schema)
    changes = newest(rule, _read(table, part.changes, schema))
    buckets = buckets_of([changes.column(name) for name in rule.keys], rule.buckets)
    live = live_buckets(table, rule)
    by_tasks = {bucket_of(file.name): file for file in part.files}
    files = BucketFiles(table, rule, schema, part.query, part.batch)

    def rewrite(bucket: int) -> DataFile | None:
        base, path = by_tasks.get(bucket), None
        if base is not None:
            path = table.file_path(base.name, base.partition)
        elif bucket in live:
            base, path = live[bucket], table.read_path(live[bucket])
        return files.rewritten(bucket, base, path, changes.filter(pa.array(buckets == bucket)))

    touched = [int(bucket) for bucket in np.unique(buckets)]
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            made = {bucket: file for bucket, file in zip(touched, pool.map(rewrite, touched), strict=True) if file}
    except BaseException:
        files.discard(files.paths)
        raise
    replaced = {file.name: file for file in part.replaced}
    replaced |= {live[bucket].name: live[bucket] for bucket in made if bucket in live}
    new = sorted((by_tasks | made).values(), key=lambda file: file.name)
    return replace(part, files=tuple(new), replaced=tuple(replaced.values()))


def forget_changes(table: LakeTable, part: BatchPart) -> None:
    """Delete what tasks staged: it is never a part of the table."""
    if part.changes:
        table.place.delete(_paths(table, part.changes))


def forget_superseded(table: LakeTable, part: BatchPart, committed: BatchPart) -> None:
    """Delete bucket files of tasks that the driver rewrote."""
    kept = {file.name for file in committed.files}
    gone = [table.file_path(file.name, file.partition) for file in part.files if file.name not in kept]
    table.place.delete(gone)


def _read(table: LakeTable, files: Sequence[DataFile], schema: pa.Schema) -> pa.Table:
    whole = schema.append(pa.field(DELETED, pa.bool_()))
    batches = [
        batch
        for file, path in zip(files, _paths(table, files), strict=True)
        for batch in read_file(table.place.source(path), file, whole, whole_file=True)
    ]
    return pa.Table.from_batches(batches, whole)


def _paths(table: LakeTable, files: Sequence[DataFile]) -> list[PurePath]:
    return [changes_path(table, file.name) for file in files]
