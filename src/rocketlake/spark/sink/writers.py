"""The batch and stream writers that Spark calls.

Owns        the names of Spark's contract, the identity of a task, the commit.
Must not know   rows, requests.

Spark makes a new stream writer for each commit: a commit knows only the messages of the tasks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.spark.sink.counts import TaskDone, add_line, log_summary, summary
from rocketlake.spark.sink.identity import BATCH_ID, QUERY_ID, TaskIdentity, stream_identity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RocketMQStreamWriter", "RocketMQWriter"]

_log = get_logger(__name__)

_Messages = list[WriterCommitMessage | None]


class RocketMQWriter(DataSourceArrowWriter):
    """df.write.format("rocketmq").mode("append"). The object that plans is the one that writes and commits."""

    def __init__(self, options: SinkOptions, columns: InputColumns) -> None:
        self._options = options
        self._columns = columns
        self._query = options.producer_id or str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The rows of one partition."""
        identity = TaskIdentity(self._query, self._options.batch_id, _context().partitionId())
        return _write(self._options, self._columns, identity, iterator)

    def commit(self, messages: _Messages) -> None:
        """All rows are stored."""
        _finish(self._options, messages)

    def abort(self, messages: _Messages) -> None:
        """A task failed: messages that other tasks stored stay in the topic."""
        _give_up(self._options, messages)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """df.writeStream.format("rocketmq")."""

    def __init__(self, options: SinkOptions, columns: InputColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The rows of one partition of a micro-batch."""
        context = _context()
        identity = stream_identity(
            context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID), context.partitionId()
        )
        return _write(self._options, self._columns, identity, iterator)

    def commit(self, messages: _Messages, batchId: int) -> None:
        """All rows of the micro-batch are stored."""
        _finish(self._options, messages)

    def abort(self, messages: _Messages, batchId: int) -> None:
        """A task failed, or the query was stopped: Spark writes this micro-batch again when the query is restarted."""
        _give_up(self._options, messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise UsageError("rows can be written inside of a Spark task only", hint="let Spark call it")
    return context


def _write(
    options: SinkOptions, columns: InputColumns, identity: TaskIdentity, rows: Iterator[pa.RecordBatch]
) -> TaskDone:
    from rocketlake.spark.sink.cluster_sends import connect

    if options.exactly_once:
        from rocketlake.spark.sink.exactly_once.half_task import write_task

        return write_task(connect(options), options, columns, identity, rows)
    from rocketlake.spark.sink.task import SinkTask

    return TaskDone(identity, SinkTask(options, columns, identity, connect(options)).write(rows))


def _finish(options: SinkOptions, messages: _Messages) -> None:
    numbers = summary(messages)
    if options.exactly_once:
        from rocketlake.spark.sink.cluster_sends import connect
        from rocketlake.spark.sink.exactly_once.process import commit

        commit(connect(options), options, messages, numbers)
    log_summary(numbers)
    if options.progress_path:
        add_line(options.progress_path, numbers)


def _give_up(options: SinkOptions, messages: _Messages) -> None:
    if options.exactly_once:
        from rocketlake.spark.sink.cluster_sends import connect
        from rocketlake.spark.sink.exactly_once.process import abort

        abort(connect(options), options, messages)
        return
    numbers = summary(messages)
    if numbers["messages"]:
        _log.warning("rocketmq sink: the write failed, %d messages of it are stored", numbers["messages"])
