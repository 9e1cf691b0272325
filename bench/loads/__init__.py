"""One module per kind of load. Owns: what is driven, how, and which figures it has to reach (issue of the hot path)."""

from __future__ import annotations

from bench.loads import (
    backlog,
    batch,
    cold_read,
    connections,
    grpc,
    live,
    metrics,
    open_loop,
    pops,
    producer,
    python_batches,
    python_client,
    queues,
    request_reply,
    starts,
    timer,
    transaction,
)
from bench.plan import Load

LOADS: tuple[Load, ...] = (
    *producer.LOADS,
    *batch.LOADS,
    *transaction.LOADS,
    *open_loop.LOADS,
    *backlog.LOADS,
    *live.LOADS,
    *queues.LOADS,
    *metrics.LOADS,
    *starts.LOADS,
    *cold_read.LOADS,
    *connections.LOADS,
    *python_client.LOADS,
    *python_batches.LOADS,
    *request_reply.LOADS,
    *timer.LOADS,
    *grpc.LOADS,
    *pops.LOADS,
)
"""All, in the order they run: a later one may use the rates of an earlier one."""
