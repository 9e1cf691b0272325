"""exactly_once on a real cluster over sockets, without Spark around it: tasks, a driver, and one that comes later."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketlake.admin import Admin
from rocketlake.admin.messages.transactions import OpenTransactions
from rocketlake.base.errors import UsageError
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_layout import MAGIC_V1
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.spark.sink.cluster_sends import ClusterSends, connect
from rocketlake.spark.sink.counts import TaskDone
from rocketlake.spark.sink.exactly_once.half_task import write_task
from rocketlake.spark.sink.exactly_once.journal import BatchPassed
from rocketlake.spark.sink.exactly_once.process import abort, attempt_of_tasks, commit, open_journal
from rocketlake.spark.sink.exactly_once.records import HalfList, Record
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions, parse_options
from rocketlake.spark.sink.sending import WriteFailed
from rocketlake.testing.cluster import EmbeddedCluster

QUEUES = 3


class Query:
    """A query that writes into a topic of its own."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, **more: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.make_topic(topic)
        self.make_topic(f"{topic}__decisions")
        given = {"namesrvAddr": cluster.namesrv, "topic": topic, "deliveryGuarantee": "exactly_once"} | more
        self.options: SinkOptions = parse_options(given | {"checkpointLocation": "/c"}, streaming=True)
        self.sends: ClusterSends = connect(self.options)

    def make_topic(self, topic: str, queues: int = QUEUES, **attributes: str) -> None:
        async def make() -> None:
            broker = self.cluster.standalone.broker
            broker.topics.put(TopicConfig(topic, read_queues=queues, write_queues=queues, attributes=attributes))
            await broker.cluster.registration.register()

        self.cluster.run(make())

    def tasks(self, batch: int, *partitions: list[bytes]) -> list[TaskDone]:
        return [self.task(batch, number, rows) for number, rows in enumerate(partitions)]

    def task(self, batch: int, number: int, rows: list[bytes]) -> TaskDone:
        table = pa.record_batch({"body": pa.array(rows, pa.binary())})
        identity = TaskIdentity(f"query-{self.topic}", batch, number)
        return write_task(self.sends, self.options, InputColumns({"body": 0}), identity, iter([table]))

    def commit(self, done: list[TaskDone]) -> dict[str, Any]:
        numbers: dict[str, Any] = {}
        commit(self.sends, self.options, done, numbers)
        return numbers

    def decide_only(self, done: list[TaskDone]) -> None:
        """As a driver that dies behind its decision."""
        attempt = attempt_of_tasks(done)

        async def decide() -> None:
            journal = await open_journal(self.sends, self.options, f"query-{self.topic}")
            standing = await journal.standing(attempt.batch)
            lists = list(attempt.lists)
            sums = attempt.rows, attempt.messages
            await journal.add(Record("commit", journal.query, attempt.batch, attempt.name, standing.seen, *sums, lists))

        self.sends.run(decide())

    def messages(self) -> list[StoredMessage]:
        async def read() -> list[StoredMessage]:
            store, found = self.cluster.standalone.broker.store, []
            for queue_id in range(QUEUES):
                offset = 0
                while (got := store.get(self.topic, queue_id, offset, 10_000, 1 << 26)).count:
                    for part in got.slices:
                        found += decode_records(bytes(part))
                    offset = got.next_offset
            return found

        return self.cluster.run(read())

    def rows(self) -> Counter[bytes]:
        return Counter(message.body for message in self.messages())


def rows(first: int, end: int) -> list[bytes]:
    return [b"row %d" % number for number in range(first, end)]


def test_a_batch_is_visible_behind_its_commit_and_only_then(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Behind")
    done = query.tasks(0, rows(0, 700), rows(700, 1000))
    assert not query.messages()
    assert sum(task.counts.messages for task in done) == 1000
    query.commit(done)
    assert query.rows() == Counter(rows(0, 1000))
    assert {message.properties["RL_BATCH"] for message in query.messages()} == {"query-Behind/0"}
    for queue_id in range(QUEUES):
        first = [int(m.body.split()[1]) for m in query.messages() if m.queue_id == queue_id]
        order = [number for number in first if number < 700]
        assert order == sorted(order), "rows of one task keep their order in a queue"


def test_another_plan_finds_the_decision_and_ends_what_was_left(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Left")
    query.decide_only(query.tasks(3, rows(0, 50), rows(50, 90)))
    assert not query.messages()
    again = query.tasks(3, rows(60, 90)[::-1], rows(0, 30), rows(30, 60))
    assert [(task.counts.rows, task.lists) for task in again] == [(30, ()), (30, ()), (30, ())]
    assert query.commit(again) == {"messages": 90, "replayed": 90}
    assert query.rows() == Counter(rows(0, 90))
    query.commit(query.tasks(3, rows(0, 90)))
    assert query.rows() == Counter(rows(0, 90))


def test_the_first_of_two_drivers_decides(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Two")
    first, second = query.tasks(0, rows(0, 20)), query.tasks(0, rows(0, 10), rows(10, 20))
    query.decide_only(second)
    query.commit(first)
    assert query.rows() == Counter(rows(0, 20))
    query.commit(second)
    assert query.rows() == Counter(rows(0, 20))


def test_an_attempt_that_was_given_up_is_never_committed(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "GivenUp")
    first = query.tasks(0, rows(0, 20))
    abort(query.sends, query.options, [*first, None])
    with pytest.raises(WriteFailed, match="was aborted before it was committed"):
        query.commit(first)
    query.commit(query.tasks(0, rows(0, 20)))
    assert query.rows() == Counter(rows(0, 20))
    abort(query.sends, query.options, first)
    assert query.rows() == Counter(rows(0, 20))


def test_a_failed_commit_is_not_undone_by_its_abort(cluster: EmbeddedCluster) -> None:
    """Spark aborts an attempt whose commit raised an error, though the decision may be there."""
    query = Query(cluster, "Undone")
    done = query.tasks(0, rows(0, 20))
    query.decide_only(done)
    abort(query.sends, query.options, done)
    query.commit(query.tasks(0, rows(0, 20)))
    assert query.rows() == Counter(rows(0, 20))


def test_other_rows_under_a_number_that_is_decided_are_refused(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Other")
    query.commit(query.tasks(4, rows(0, 20)))
    with pytest.raises(WriteFailed, match="was committed with 20 rows before, now it has 25"):
        query.commit(query.tasks(4, rows(0, 25)))
    with pytest.raises(BatchPassed, match="batch 3 of query query-Other is to be written, but batch 4 is decided"):
        query.tasks(3, rows(0, 25))
    assert query.rows() == Counter(rows(0, 20))


def test_a_batch_that_took_too_long_fails_before_brokers_give_its_messages_up(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Long", batchTimeoutMs="1000")
    done = query.tasks(0, rows(0, 20))
    old = [TaskDone(task.identity, task.counts, task.lists, task.born_ms - 2000) for task in done]
    with pytest.raises(WriteFailed, match="2 s from its first message to its decision, more than 'batchTimeoutMs'"):
        query.commit(old)
    assert not query.messages()


def test_topics_that_cannot_take_part_are_refused(cluster: EmbeddedCluster) -> None:
    query = Query(cluster, "Fifo")
    query.make_topic("Fifo", **{"message.type": "FIFO"})
    with pytest.raises(UsageError, match="Fifo is for messages of type FIFO, and takes no transactions"):
        query.tasks(0, rows(0, 2))
    query = Query(cluster, "OneQueue")
    query.make_topic("One", queues=1)
    query.options = parse_options(
        {"namesrvAddr": cluster.namesrv, "topic": "OneQueue", "deliveryGuarantee": "exactly_once"}
        | {"decisionTopic": "One", "queryName": "q"},
        streaming=True,
    )
    with pytest.raises(UsageError, match="decision topic One has one queue, and needs two"):
        query.tasks(0, rows(0, 2))


def test_what_an_attempt_left_is_rolled_back_once_the_batch_is_done_and_not_before(tmp_path: Path) -> None:
    """A broker asks any process of the query; the answer is that of the journal."""
    settings = {"transaction_check_interval_ms": 200, "transaction_timeout_ms": 200, "transaction_checks_max": 1000}
    with EmbeddedCluster(tmp_path, settings=settings) as cluster:
        query = Query(cluster, "Asked", batchTimeoutMs="1000")
        query.tasks(0, rows(0, 5))  # its worker dies, nobody knows where these half messages lie
        assert asked_about(cluster) == 5
        query.commit(query.tasks(0, rows(0, 20)))
        ends = time.monotonic() + 60
        while open_ones(cluster).total:
            assert time.monotonic() < ends, "half messages of a dead attempt stay open"
        assert query.rows() == Counter(rows(0, 20))


def test_a_decided_batch_that_was_left_for_too_long_says_how_to_go_on(tmp_path: Path) -> None:
    """Its driver died behind the decision, no other one came, and the broker gave the half messages up."""
    settings = {
        "transaction_check_interval_ms": 200,
        "transaction_timeout_ms": 200,
        "transaction_checks_max": 10,
    }
    with EmbeddedCluster(tmp_path, settings=settings) as cluster:
        query = Query(cluster, "Late", batchTimeoutMs="1000", deliveryTimeoutMs="1000")
        query.decide_only(query.tasks(0, rows(0, 5)))
        ends = time.monotonic() + 60
        while open_ones(cluster, given_up=True).total < 5:
            assert time.monotonic() < ends, "half messages are never given up"
        with pytest.raises(
            WriteFailed, match=r"the half message was given up.*Cure: bring back what `rocketlake transaction list"
        ):
            query.commit(query.tasks(0, rows(0, 5)))
        assert not query.messages()

        async def bring_back() -> None:
            async with Admin(namesrv=cluster.namesrv) as admin:
                # Else they are given up again two seconds later: a busy machine needs longer for the commit.
                await admin.change_broker("broker-a", {"transactionCheckMax": "1000"})
                for _, half in (await admin.open_transactions(given_up=True)).oldest():
                    await admin.check_transaction(half.id)

        asyncio.run(bring_back())
        query.commit(query.tasks(0, rows(0, 5)))
        assert query.rows() == Counter(rows(0, 5))


def test_a_decided_batch_whose_lists_have_expired_says_so(tmp_path: Path) -> None:
    """Its driver died behind the decision, and no other one came while the broker kept the lists."""
    settings = {
        "commit_log_file_bytes": 64 * 1024,
        "clean_interval_ms": 100,
        "queue_flush_thorough_interval_ms": 100,
        "file_reserved_hours": 0,
        "delete_when": ";".join(f"{hour:02}" for hour in range(24)),
    }
    with EmbeddedCluster(tmp_path, settings=settings) as cluster:
        query = Query(cluster, "Expired")
        done = query.tasks(0, rows(0, 5))
        queue_id, offset = done[0].lists[0]
        cluster.send("Padding", [b"x" * 4_000] * 40)
        query.decide_only(done)
        store, ends = cluster.standalone.broker.store, time.monotonic() + 60
        while store.min_offset("Expired__decisions", queue_id) <= offset:
            assert time.monotonic() < ends, "the list does not expire"
            time.sleep(0.05)
        with pytest.raises(WriteFailed, match=rf"list .* at {offset} has expired, .*Cure: .*fileReservedTime"):
            query.commit(query.tasks(0, rows(0, 5)))


def damage(cluster: EmbeddedCluster, word: bytes) -> None:
    """Make the record that has this word unreadable."""
    path, magic = cluster.standalone.broker.store.log.list.files[0].path, struct.pack(">i", MAGIC_V1)
    log = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(log.rindex(magic, 0, log.index(word)))
        file.write(b"none")


def test_a_damaged_list_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    """A broker passes records by that it cannot read; the next list may be of another attempt."""
    with EmbeddedCluster(tmp_path) as cluster:
        query = Query(cluster, "Damaged", deliveryTimeoutMs="200")

        async def work() -> None:
            journal = await open_journal(query.sends, query.options, "query")
            lists = [HalfList("group", prefix, 0, [], b"") for prefix in ("first", "second")]
            first, second = [await journal.add_list(each, "key", 0) for each in lists]
            assert second == (first[0], first[1] + 1)
            damage(cluster, b"first")
            assert (await journal.read_list(second)).prefix == "second"
            with pytest.raises(WriteFailed, match=f"offset {first[1]} cannot be read.*names damaged records"):
                await journal.read_list(first)

        query.sends.run(work())


def test_a_damaged_decision_stops_the_query(tmp_path: Path) -> None:
    """The batch would be decided, and seen, a second time."""
    with EmbeddedCluster(tmp_path) as cluster:
        query = Query(cluster, "Damaged", deliveryTimeoutMs="200")
        query.decide_only(query.tasks(0, rows(0, 5)))
        query.commit(query.tasks(0, rows(0, 5)))
        damage(cluster, b'"kind":"commit"')
        with pytest.raises(WriteFailed, match="offset 0 cannot be read"):
            query.tasks(0, rows(0, 5))


def open_ones(cluster: EmbeddedCluster, *, given_up: bool = False) -> OpenTransactions:
    async def look() -> OpenTransactions:
        async with Admin(namesrv=cluster.namesrv) as admin:
            return await admin.open_transactions(given_up=given_up)

    return asyncio.run(look())


def asked_about(cluster: EmbeddedCluster) -> int:
    """The number of open half messages, once a producer was asked about each of them more than once."""
    ends = time.monotonic() + 60
    while True:
        found = open_ones(cluster)
        if all(half.checked > 1 for _, half in found.oldest()):
            return found.total
        assert time.monotonic() < ends, "no producer is asked"


def test_many_requests_that_fail_alike_make_few_warnings(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, "Quiet", sendTimeoutMs="1000", deliveryTimeoutMs="200", retryIntervalMs="50")
    done = query.tasks(0, rows(0, 300))
    lost = [TaskDone(task.identity, task.counts, ((0, 10**6),), task.born_ms) for task in done]
    with pytest.raises(WriteFailed, match="the read of Quiet__decisions@broker-a:0 at 1000000 failed"):
        query.commit(lost)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) < 3
