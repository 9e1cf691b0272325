"""The identity of a write: ids that are the same when a task is repeated.

Owns        query id, batch id and partition id of a task, the keys made of them.
Must not know   queues, requests.

A stream is known by Spark's query id and batch id, which are local properties of its tasks. A batch write is known by
options producerId and batchId, or by a number of its own that no other write has. A batch write inside foreachBatch
does not use the ids of the stream: brokers would take two writes of one foreachBatch for one.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import blake2b

from rocketlake.base.errors import UsageError

__all__ = ["BATCH_PROPERTY", "TaskIdentity", "producer_group", "stream_identity"]

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
BATCH_PROPERTY = "RL_BATCH"
"""The property of a message by which a batch is known: queryId/batchId. Only with exactly_once."""
_NO_GROUP = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One task of one write. A second attempt of it is equal."""

    query: str
    batch: int
    partition: int

    @property
    def key_prefix(self) -> str:
        """The start of each row's key; the row's number in the task follows."""
        return f"{self.query}/{self.batch}/{self.partition}/"

    def mark(self, sequence: int, layout: str, messages: int, before: int, after: int) -> str:
        """The value of __RL_SEQ for a request that begins with this sequence number (decision 0014).

        `before`, `after`: digests of the messages that this task sends to the queue before the request, and with it.
        """
        return f"{self.key_prefix}{sequence}/{layout}/{messages}/{before:08x}/{after:08x}"

    def unique_prefix(self, *, repeatable: bool) -> bytes:
        """24 digits that begin the unique keys of this task's messages; `repeatable`: of each attempt the same."""
        if not repeatable:
            return secrets.token_hex(12).upper().encode()
        return blake2b(self.key_prefix.encode(), digest_size=12).hexdigest().upper().encode()


def stream_identity(query: str | None, batch: str | None, partition: int) -> TaskIdentity:
    """From the local properties of a stream's task. UsageError if Spark does not give them."""
    if not query or not batch or not batch.isdigit():
        raise UsageError(
            f"Spark gives this task no query id and batch id ({QUERY_ID}={query!r}, {BATCH_ID}={batch!r})",
            hint="use a release of Spark that docs/how-to/spark.md names",
        )
    return TaskIdentity(query, int(batch), partition)


def producer_group(query: str) -> str:
    """The producer group of a query's half messages: brokers ask its members only."""
    return "ROCKETLAKE_SPARK_" + _NO_GROUP.sub("_", query)
