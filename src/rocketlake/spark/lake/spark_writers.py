"""The writers that Spark pickles, sends to tasks, and makes anew for each commit.

Owns        which query and batch a task works for.
Must not know   how rows become files (task.py), how files become a commit (batch_commit.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketlake.base.errors import InternalError
from rocketlake.spark.lake.batch_commit import abort_batch, commit_batch
from rocketlake.spark.lake.messages import TaskWritten
from rocketlake.spark.lake.options import LakeOptions, parse_options
from rocketlake.spark.lake.tables.table import UNNAMED
from rocketlake.spark.lake.task import LakeTask, check_plan

__all__ = ["LakeBatchWriter", "LakeStreamWriter"]

Messages = list[WriterCommitMessage | None]


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """Spark makes a new object for each call: the calls share options and messages only."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options: LakeOptions = parse_options(options, streaming=True)
        self._schema = schema
        check_plan(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """In a task."""
        task = TaskContext.get()
        query = task.getLocalProperty("sql.streaming.queryId") if task else None
        batch = task.getLocalProperty("streaming.sql.batchId") if task else None
        if query is None or batch is None:
            raise InternalError("this release of Spark does not tell tasks their query and batch")
        return LakeTask(self._options, self._schema, query, int(batch)).write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        """On the driver; again after a crash."""
        commit_batch(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        """On the driver; after a failed commit, too."""
        abort_batch(messages, batchId)


class LakeBatchWriter(DataSourceArrowWriter):
    """The same object in tasks and for the commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options: LakeOptions = parse_options(options, streaming=False)
        self._schema = schema
        self._query = self._options.txn_app_id or UNNAMED + uuid4().hex
        check_plan(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """In a task."""
        return LakeTask(self._options, self._schema, self._query, self._options.txn_version).write(iterator)

    def commit(self, messages: Messages) -> None:
        """On the driver."""
        commit_batch(messages, self._options.txn_version)

    def abort(self, messages: Messages) -> None:
        """On the driver."""
        abort_batch(messages, self._options.txn_version)
