"""The sink with exactly_once on Apache's broker 5.5.0, which copies half messages and asks about the copies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from interop.apache import apache_cluster
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.client.wire import offset_calls, pull, query_messages
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import parse_subscription
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.spark.cluster import end_client
from rocketlake.spark.sink.cluster_sends import ClusterSends, connect
from rocketlake.spark.sink.counts import TaskDone
from rocketlake.spark.sink.exactly_once.ends import Ends
from rocketlake.spark.sink.exactly_once.half_task import write_task
from rocketlake.spark.sink.exactly_once.process import attempt_of_tasks, commit, open_journal
from rocketlake.spark.sink.exactly_once.records import Record
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import parse_options

pytestmark = pytest.mark.interop

SETTINGS: dict[str, object] = {
    "transactionCheckInterval": 500,
    "transactionTimeOut": 500,
    # Apache's broker counts each walk against this, also while a half message asks not to be checked.
    "transactionCheckMax": 1000,
    "transactionOpBatchInterval": 200,
    "flushCommitLogThoroughInterval": 200,
}
QUEUES, BROKER, TOPIC, QUERY = 2, "apache-a", "Exact", "query"
IMMUNITY_MS = 30_000
WAIT_SECONDS = 240


class Query:
    """A query on a cluster; its processes are all in this one."""

    def __init__(self, namesrv: str) -> None:
        given = {"namesrvAddr": namesrv, "topic": TOPIC, "checkpointLocation": "/c"}
        given |= {"deliveryGuarantee": "exactly_once", "batchTimeoutMs": str(IMMUNITY_MS)}
        self.options = parse_options(given, streaming=True)
        self.sends: ClusterSends = connect(self.options)

    def tasks(self, batch: int, *partitions: list[bytes]) -> list[TaskDone]:
        done = []
        for number, rows in enumerate(partitions):
            table = pa.record_batch({"body": pa.array(rows, pa.binary())})
            identity = TaskIdentity(QUERY, batch, number)
            done.append(write_task(self.sends, self.options, InputColumns({"body": 0}), identity, iter([table])))
        return done

    def commit(self, done: list[TaskDone]) -> None:
        commit(self.sends, self.options, done, {})

    def decide(self, done: list[TaskDone], *, ends: bool) -> None:
        """As a driver that dies behind its decision, or, with `ends`, behind the last end."""
        attempt = attempt_of_tasks(done)

        async def decide() -> None:
            journal = await open_journal(self.sends, self.options, QUERY)
            seen, sums = (await journal.standing(attempt.batch)).seen, (attempt.rows, attempt.messages)
            await journal.add(Record("commit", QUERY, attempt.batch, attempt.name, seen, *sums, list(attempt.lists)))
            for place in attempt.lists if ends else ():
                half_list = await journal.read_list(place)
                await Ends(journal.calls, immunity_ms=IMMUNITY_MS).commit(half_list, may_be_sent=False)

        self.sends.run(decide())

    def messages(self) -> list[StoredMessage]:
        async def read(address: str) -> list[StoredMessage]:
            found: list[StoredMessage] = []
            for number in range(QUEUES):
                queue, offset = MessageQueue(TOPIC, BROKER, number), 0
                subscription = parse_subscription(TOPIC, None)
                while offset < await offset_calls.max_offset(self.sends.client.net, address, queue):
                    answer = await pull(
                        self.sends.client.net, address, queue, group="reader", offset=offset,
                        subscription=subscription, lite=True,
                    )  # fmt: skip
                    found, offset = found + answer.messages, answer.next_offset
            return found

        return self.sends.run(self.sends.client.at_master(BROKER, TOPIC, read))

    def rows(self) -> Counter[bytes]:
        return Counter(message.body for message in self.messages())

    def is_indexed(self) -> bool:
        """True if each message of the topic is found by its unique key."""
        keys = [message.unique_key for message in self.messages()]

        async def look(address: str) -> bool:
            net = self.sends.client.net
            return all([await query_messages(net, address, TOPIC, key, unique=True) for key in keys])

        return self.sends.run(self.sends.client.at_master(BROKER, TOPIC, look))

    def halves(self) -> tuple[int, int]:
        """The half messages that Apache's walk has passed, and all, with their copies."""
        queue = MessageQueue(HALF_TOPIC, BROKER, 0)

        async def ask(address: str) -> tuple[int, int]:
            net = self.sends.client.net
            passed = await offset_calls.committed_offset(net, address, "CID_RMQ_SYS_TRANS", queue)
            return passed, await offset_calls.max_offset(net, address, queue)

        return self.sends.run(self.sends.client.at_master(BROKER, TOPIC, ask))


def numbered(first: int, end: int) -> list[bytes]:
    return [b"row %d" % number for number in range(first, end)]


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_apaches_broker_shows_each_row_once(apache_jars: None, tmp_path: Path) -> None:
    with apache_cluster(tmp_path / "apache", settings=SETTINGS, peer="server550") as apache:

        async def make_topics() -> None:
            async with Cluster(apache.namesrv) as admin:
                for topic in (TOPIC, f"{TOPIC}__decisions"):
                    await admin.create_topic(TopicPlan(topic, QUEUES, 6))

        asyncio.run(make_topics())
        query = Query(apache.namesrv)
        query.tasks(0, numbered(0, 7))  # its worker dies
        done = query.tasks(0, numbered(0, 20), numbered(20, 30))
        wait_until(lambda: query.halves()[1] > 2 * 37)  # the broker has copied all of them
        assert not query.messages()
        query.decide(done, ends=False)
        query.commit(query.tasks(0, numbered(15, 30), numbered(0, 15)))
        done = query.tasks(1, numbered(30, 40))
        query.decide(done, ends=True)
        wait_until(query.is_indexed)
        query.commit(query.tasks(1, numbered(30, 40)[::-1]))
        wait_until(lambda: query.rows() == Counter(numbered(0, 40)))
        # The copies of ended half messages are open to Apache's walk: it asks, and must not be told to commit them.
        wait_until(lambda: len(set(query.halves())) == 1)
        assert query.rows() == Counter(numbered(0, 40))
        end_client(apache.namesrv)
