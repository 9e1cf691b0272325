"""Tasks of the Spark sink on a real cluster over sockets, without Spark around them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from rocketlake.client.errors import NoRoute
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.spark.sink.cluster_sends import connect
from rocketlake.spark.sink.counts import Counts
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import parse_options
from rocketlake.spark.sink.sending import WriteFailed
from rocketlake.spark.sink.task import SinkTask
from rocketlake.testing.cluster import EmbeddedCluster

QUEUES = 3
ONCE = {"deliveryGuarantee": "effectively_once"}


def make_topic(cluster: EmbeddedCluster, topic: str, queues: int = QUEUES) -> None:
    async def make() -> None:
        cluster.standalone.broker.topics.put(TopicConfig(topic, read_queues=queues, write_queues=queues))
        await cluster.standalone.broker.cluster.registration.register()

    cluster.run(make())


def messages(cluster: EmbeddedCluster, topic: str) -> list[StoredMessage]:
    async def read() -> list[StoredMessage]:
        store, found = cluster.standalone.broker.store, []
        for queue_id in range(QUEUES + 1):
            offset = 0
            while (got := store.get(topic, queue_id, offset, 10_000, 1 << 26)).count:
                for part in got.slices:
                    found += decode_records(bytes(part))
                offset = got.next_offset
        return found

    return cluster.run(read())


def write(cluster: EmbeddedCluster, topic: str, rows: int, partition: int = 0, batch: int = 0, **more: str) -> Counts:
    bodies = [f"{partition}-{row}".encode() for row in range(rows)]
    return write_bodies(cluster, topic, bodies, partition, batch, **more)


def write_bodies(
    cluster: EmbeddedCluster, topic: str, bodies: list[bytes], partition: int = 0, batch: int = 0, **more: str
) -> Counts:
    options = parse_options({"namesrvAddr": cluster.namesrv, "topic": topic} | more, streaming=False)
    identity = TaskIdentity("query", batch, partition)
    table = pa.record_batch({"body": pa.array(bodies, pa.binary())})
    batches = (table.slice(first, 700) for first in range(0, len(bodies), 700))
    return SinkTask(options, InputColumns({"body": 0}), identity, connect(options)).write(batches)


def test_two_tasks_at_once_and_both_again(cluster: EmbeddedCluster) -> None:
    make_topic(cluster, "Once")
    for attempt in range(2):
        with ThreadPoolExecutor(2) as pool:
            counts = list(pool.map(lambda task: write(cluster, "Once", 5000, task, **ONCE, batchBytes="20k"), range(2)))
        assert [(each.messages, each.replayed) for each in counts] == [(5000, 5000 * attempt)] * 2
    found = messages(cluster, "Once")
    assert len(found) == 10_000
    assert len({message.body for message in found}) == len({message.keys for message in found}) == 10_000
    for queue_id in range(QUEUES):
        for partition in (b"0", b"1"):
            bodies = [
                m.body.split(b"-") for m in found if m.queue_id == queue_id and m.body.startswith(partition + b"-")
            ]
            assert bodies == sorted(bodies, key=lambda body: int(body[1]))


def test_the_rest_of_a_task_that_died_is_added(cluster: EmbeddedCluster) -> None:
    make_topic(cluster, "Rest")
    write(cluster, "Rest", 2500, **ONCE)
    counts = write(cluster, "Rest", 6000, batchBytes="7k", **ONCE)
    assert (counts.messages, counts.replayed) == (6000, 2500)
    assert Counter(m.body for m in messages(cluster, "Rest")) == Counter(b"0-%d" % row for row in range(6000))


def test_at_least_once_needs_no_topic_and_knows_no_replays(cluster: EmbeddedCluster) -> None:
    for _ in range(2):
        assert write(cluster, "Twice", 50).replayed == 0
    assert set(Counter(m.body for m in messages(cluster, "Twice")).values()) == {2}
    with pytest.raises(NoRoute, match="'Never'"):
        write(cluster, "Never", 1, deliveryGuarantee="effectively_once", deliveryTimeoutMs="300")


def test_a_topic_that_got_other_queues_within_a_batch_is_refused_with_what_to_do(cluster: EmbeddedCluster) -> None:
    make_topic(cluster, "Grows", 2)
    write(cluster, "Grows", 100, partition=1, **ONCE)
    make_topic(cluster, "Grows", 3)

    sends = connect(parse_options({"namesrvAddr": cluster.namesrv, "topic": "Grows"}, streaming=False))

    async def refresh() -> None:
        await sends.client.refresh_route("Grows")

    sends.run_soon(refresh()).result(10)  # else the task would know the new queues some seconds later
    with pytest.raises(WriteFailed, match=r"spreads its rows over the queues of Grows.*give the topic the queues"):
        write(cluster, "Grows", 100, partition=1, **ONCE)
    assert write(cluster, "Grows", 100, partition=1, batch=1, **ONCE).replayed == 0


# -- a batch whose plan changed after a part of it was written ---------------------------------------------------------


def run_batch(cluster: EmbeddedCluster, topic: str, partitions: list[list[bytes]], *, fails: frozenset[int]) -> None:
    """The tasks of one attempt as Spark runs them: another one's failure stops none that is under way."""
    failures: list[WriteFailed] = []
    for number, bodies in enumerate(partitions):
        if number in fails:
            continue
        try:
            write_bodies(cluster, topic, bodies, number, **ONCE)
        except WriteFailed as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def numbered(count: int) -> list[bytes]:
    return [b"row %d" % number for number in range(count)]


def cut(rows: list[bytes], parts: int) -> list[list[bytes]]:
    size = len(rows) // parts
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def in_topic(cluster: EmbeddedCluster, topic: str) -> Counter[bytes]:
    return Counter(message.body for message in messages(cluster, topic))


REFUSED = r"(was written before with other rows|rows of this batch were stored in).*minPartitions"


def test_other_partitions_in_a_half_written_batch_are_refused(cluster: EmbeddedCluster) -> None:
    """History D1: one of four tasks failed, the batch is repeated with eight."""
    make_topic(cluster, "Partitions")
    rows = numbered(80)
    run_batch(cluster, "Partitions", cut(rows, 4), fails=frozenset({0}))
    with pytest.raises(WriteFailed, match=REFUSED):
        run_batch(cluster, "Partitions", cut(rows, 8), fails=frozenset())
    make_topic(cluster, "PartitionsAgain")
    run_batch(cluster, "PartitionsAgain", cut(rows, 4), fails=frozenset({0}))
    run_batch(cluster, "PartitionsAgain", cut(rows, 4), fails=frozenset())
    assert in_topic(cluster, "PartitionsAgain") == Counter(rows)


@pytest.mark.parametrize("kept", [range(3, 9), range(3, 4), range(0, 3)])
def test_another_condition_in_a_written_batch_is_refused(cluster: EmbeddedCluster, kept: range) -> None:
    """History D2: all tasks were through when the driver died; `where a < 5` became another condition."""
    topic = f"Condition-{kept.start}-{kept.stop}"
    make_topic(cluster, topic)
    before, now = ([[b"row %d" % a for a in wanted for _ in range(4)]] * 2 for wanted in (range(5), kept))
    run_batch(cluster, topic, before, fails=frozenset())
    with pytest.raises(WriteFailed, match=REFUSED):
        run_batch(cluster, topic, now, fails=frozenset())


def test_rows_in_another_order_in_a_half_written_batch_are_refused(cluster: EmbeddedCluster) -> None:
    """History E1: 20 of 40 rows were stored, then a shuffle gave them in another order. E2: in the same one."""
    rows = numbered(40)
    for topic, second in (("Shuffled", rows[::-1]), ("Same", rows)):
        make_topic(cluster, topic)
        write_bodies(cluster, topic, rows[:20], **ONCE)
        if second is rows:
            assert write_bodies(cluster, topic, second, **ONCE, batchBytes="1k").replayed == 20
            assert in_topic(cluster, topic) == Counter(rows)
        else:
            with pytest.raises(WriteFailed, match=REFUSED):
                write_bodies(cluster, topic, second, **ONCE)
            assert in_topic(cluster, topic) == Counter(rows[:20]), "nothing was added"


def test_an_older_batch_is_refused(cluster: EmbeddedCluster) -> None:
    make_topic(cluster, "Older")
    write(cluster, "Older", 10, batch=7, **ONCE)
    with pytest.raises(
        WriteFailed, match=r"sends batch 3 to Older, but its query has written batch 7.*older copy of a checkp"
    ):
        write(cluster, "Older", 10, batch=3, **ONCE)


def test_a_broker_puts_rows_into_the_queue_of_their_priority(cluster: EmbeddedCluster) -> None:
    async def make() -> None:
        attributes = {"message.type": "PRIORITY"}
        cluster.standalone.broker.topics.put(
            TopicConfig("First", read_queues=QUEUES, write_queues=QUEUES, attributes=attributes)
        )
        await cluster.standalone.broker.cluster.registration.register()

    cluster.run(make())
    rows = pa.record_batch({"body": pa.array([b"0", b"2", b"1", b"9"]), "priority": pa.array([0, 2, 1, 9], pa.int32())})
    options = parse_options({"namesrvAddr": cluster.namesrv, "topic": "First"}, streaming=False)
    columns = InputColumns({"body": 0, "priority": 1})
    SinkTask(options, columns, TaskIdentity("query", 0, 0), connect(options)).write([rows])
    found = {message.body: (message.queue_id, message.priority) for message in messages(cluster, "First")}
    assert found == {b"0": (0, 0), b"1": (1, 1), b"2": (2, 2), b"9": (QUEUES - 1, 9)}
