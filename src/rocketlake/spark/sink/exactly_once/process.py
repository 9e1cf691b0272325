"""exactly_once as a task and the driver call it: from threads of Spark, over the links of this process.

Owns        what is made of the options, the way between Spark's thread and the loop.
Must not know   how rows become messages (half_task.py), the steps of a batch (batch.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.spark.sink.cluster_sends import ClusterSends
from rocketlake.spark.sink.counts import TaskDone
from rocketlake.spark.sink.exactly_once.batch import Attempt, BatchEnd
from rocketlake.spark.sink.exactly_once.calls import Calls
from rocketlake.spark.sink.exactly_once.ends import Ends
from rocketlake.spark.sink.exactly_once.journal import Journal
from rocketlake.spark.sink.exactly_once.questions import answer_for
from rocketlake.spark.sink.finding_queues import await_queues
from rocketlake.spark.sink.identity import producer_group
from rocketlake.spark.sink.options import SinkOptions

__all__ = ["abort", "attempt_of_tasks", "batch_end", "commit", "open_journal"]

_log = get_logger(__name__)


async def open_journal(cluster: ClusterSends, options: SinkOptions, query: str) -> Journal:
    """The decisions of this query; brokers may ask this process about its half messages from now on."""
    calls = Calls(
        cluster.client,
        producer_group(query),
        timeout_ms=options.send_timeout_ms,
        patience_ms=options.delivery_timeout_ms,
        pause_ms=options.retry_interval_ms,
    )
    journal = Journal(calls, query, await await_queues(cluster, options, options.decision_topic))
    answer_for(journal)
    return journal


def batch_end(journal: Journal, options: SinkOptions) -> BatchEnd:
    """Ends batches of this query."""
    ends = Ends(journal.calls, immunity_ms=options.batch_timeout_ms)
    return BatchEnd(journal, ends, batch_timeout_ms=options.batch_timeout_ms)


def attempt_of_tasks(done: Sequence[TaskDone]) -> Attempt:
    """What these tasks wrote together."""
    born = [task.born_ms for task in done if task.born_ms]
    return Attempt(
        done[0].identity.batch,
        [place for task in done for place in task.lists],
        sum(task.counts.rows for task in done),
        sum(task.counts.messages for task in done),
        min(born, default=0),
    )


def commit(cluster: ClusterSends, options: SinkOptions, messages: Sequence[object], numbers: dict[str, Any]) -> None:
    """Make the batch of these tasks visible, and correct its numbers if it was decided before. Raises WriteFailed."""
    done = [message for message in messages if isinstance(message, TaskDone)]
    if not done:
        return
    attempt = attempt_of_tasks(done)

    async def end() -> None:
        journal = await open_journal(cluster, options, done[0].identity.query)
        decision = await batch_end(journal, options).commit(attempt)
        if decision.attempt != attempt.name:
            numbers["messages"] = numbers["replayed"] = decision.messages

    cluster.run_soon(end()).result()


def abort(cluster: ClusterSends, options: SinkOptions, messages: Sequence[object]) -> None:
    """Roll back what these tasks wrote, unless it is decided. What is not reached brokers ask about later."""
    done = [message for message in messages if isinstance(message, TaskDone)]
    if not any(task.lists for task in done):
        return

    async def give_up() -> None:
        journal = await open_journal(cluster, options, done[0].identity.query)
        await batch_end(journal, options).abort(attempt_of_tasks(done))

    try:
        cluster.run_soon(give_up()).result()
    except RocketLakeError as error:
        _log.warning("rocketmq sink: the half messages of a failed write wait for an end: %s", error)
