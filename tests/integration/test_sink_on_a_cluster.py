"""Tasks of the Spark sink on a real cluster over sockets, without Spark around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def make_topic(cluster: EmbeddedCluster, topic: str, queues: int = QUEUES) -> None:
    async def make() -> None:
        cluster.standalone.broker.topics.put(TopicConfig(topic, read_queues=queues, write_queues=queues))
        await cluster.standalone.broker.registration.register()

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
    options = parse_options({"namesrvAddr": cluster.namesrv, "topic": topic} | more, streaming=False)
    identity = TaskIdentity("query", batch, partition)
    table = pa.record_batch({"body": [f"{partition}-{row}".encode() for row in range(rows)]})
    batches = (table.slice(first, 700) for first in range(0, rows, 700))
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
        write(cluster, "Never", 1, deliveryGuarantee="effectively_once")


def test_a_topic_that_got_other_queues_within_a_batch_is_refused_with_what_to_do(cluster: EmbeddedCluster) -> None:
    make_topic(cluster, "Grows", 2)
    write(cluster, "Grows", 100, partition=1, **ONCE)
    make_topic(cluster, "Grows", 3)

    sends = connect(parse_options({"namesrvAddr": cluster.namesrv, "topic": "Grows"}, streaming=False))

    async def refresh() -> None:
        await sends._client.refresh_route("Grows")

    sends.run_soon(refresh()).result(10)  # else the task would know the new queues some seconds later
    with pytest.raises(WriteFailed, match=r"spreads its rows over the queues of Grows.*give the topic the queues"):
        write(cluster, "Grows", 100, partition=1, **ONCE)
    assert write(cluster, "Grows", 100, partition=1, batch=1, **ONCE).replayed == 0
