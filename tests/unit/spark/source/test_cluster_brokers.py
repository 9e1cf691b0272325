"""The Brokers seam over real sockets: every question, and how many links and calls they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.request_code import RequestCode
from rocketlake.spark.schema import arrow_schema, full_schema
from rocketlake.spark.source.brokers import Bounds, PullOutcome
from rocketlake.spark.source.cluster_brokers import ClusterBrokers, connect
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_read import read_ranges
from rocketlake.testing.cluster import EmbeddedCluster

Options = Callable[..., Any]
FIRST = MessageQueue("T", "broker-a", 0)
SECOND = MessageQueue("T", "broker-a", 1)
SCHEMA = arrow_schema(full_schema())


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Queue 0 of topic T holds ten messages, queue 1 three; there are four queues."""
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as there:
        there.send("T", [b"%d" % n for n in range(10)], queue=0, tags="A")
        there.send("T", [b"x"] * 3, queue=1)
        yield there


@pytest.fixture
def brokers(there: EmbeddedCluster, make_options: Options) -> ClusterBrokers:
    return connect(make_options(namesrvAddr=there.namesrv, startingOffsets="earliest"))


def test_one_question_tells_the_ends_of_all_queues_of_a_topic_at_a_broker(brokers: ClusterBrokers) -> None:
    ends = brokers.run(brokers.ends("T", "broker-a"))
    assert set(brokers.run(brokers.queues("T"))) == set(ends)
    assert ends[FIRST] == Bounds(0, 10)
    assert ends[SECOND] == Bounds(0, 3)
    assert ends[MessageQueue("T", "broker-a", 3)] == Bounds(0, 0)


def test_a_topic_that_a_broker_does_not_have_has_no_ends(brokers: ClusterBrokers) -> None:
    assert brokers.run(brokers.ends("unknown", "broker-a")) == {}


def test_names_that_rocketmq_took_for_itself_are_told_apart(brokers: ClusterBrokers) -> None:
    names = brokers.run(brokers.topics())
    assert "T" in names.topics
    assert {"DefaultCluster", "broker-a"} <= set(names.reserved)


def test_a_time_is_an_offset(brokers: ClusterBrokers) -> None:
    assert brokers.run(brokers.offset_at(FIRST, 0)) == 0
    assert brokers.run(brokers.offset_at(FIRST, int(time.time() * 1000) + 3_600_000)) == 10


def test_pulls_say_what_they_found(brokers: ClusterBrokers) -> None:
    found = brokers.run(brokers.pull(FIRST, 7, 32))
    assert (found.outcome, found.next_offset, found.bounds) == (PullOutcome.FOUND, 10, Bounds(0, 10))
    assert brokers.run(brokers.pull(FIRST, 10, 32)).outcome is PullOutcome.NOTHING_YET
    assert brokers.run(brokers.pull(FIRST, 99, 32)).outcome is PullOutcome.OUT_OF_RANGE


def test_a_reset_of_the_querys_group_is_no_loss(there: EmbeddedCluster, make_options: Options) -> None:
    """The broker tells it to the next pull of the group. Without retries the rows were taken for gone."""
    options = {"consumerGroup": "moved", "fetchOffset.numRetries": "0", "namesrvAddr": there.namesrv}
    brokers = connect(make_options(startingOffsets="earliest", **options))

    async def reset() -> None:
        there.standalone.broker.offsets.assign_reset("moved", "T", 0, 2)

    there.run(reset())
    found = brokers.run(brokers.pull(FIRST, 5, 32))
    assert (found.outcome, found.next_offset) == (PullOutcome.FOUND, 10)


def test_messages_are_found_by_key_and_id_unless_they_are_too_many(
    there: EmbeddedCluster, brokers: ClusterBrokers
) -> None:
    async def send() -> str:
        async with Producer("keys", namesrv=there.namesrv) as producer:
            for _ in range(64):
                await producer.send(Message("keyed", b"x", keys="many"))
            return (await producer.send(Message("keyed", b"x", keys="one two"))).message_id

    message_id = there.run(send())
    (queue,) = found = brokers.run(brokers.find("keyed", "broker-a", "two", unique=False))
    assert brokers.run(brokers.find("keyed", "broker-a", message_id, unique=True)) == found
    assert len(found[queue]) == 1
    assert brokers.run(brokers.find("keyed", "broker-a", "none", unique=False)) == {}
    assert brokers.run(brokers.find("keyed", "broker-a", "many", unique=False)) is None


def test_offsets_are_kept_for_a_group(brokers: ClusterBrokers) -> None:
    brokers.run(brokers.keep_offset("G", FIRST, 4))
    assert brokers.run(brokers.kept_offset("G", FIRST)) == 4


def test_a_filter_the_broker_does_not_do_is_named_with_the_setting(
    there: EmbeddedCluster, make_options: Options
) -> None:
    brokers = connect(make_options(namesrvAddr=there.namesrv, startingOffsets="earliest", **{"filter.sql92": "a = 1"}))
    with pytest.raises(UsageError, match="enablePropertyFilter=true"):
        brokers.run(brokers.pull(FIRST, 0, 32))


def test_a_thousand_reads_of_many_queries_use_one_link(there: EmbeddedCluster, make_options: Options) -> None:
    server = there.standalone.broker._servers[0]

    def links() -> list[int]:
        return sorted(link.id for link in list(server.links))

    options = [
        make_options(namesrvAddr=there.namesrv, startingOffsets="earliest", pullTimeoutMs=5000 + number, **given)
        for number, given in enumerate([{}, {"tags": "A"}, {"consumerGroup": "G"}])
    ]
    seen: set[tuple[int, ...]] = set()
    rows = 0
    for number in range(1000):
        each = options[number % len(options)]
        rows += sum(batch.num_rows for batch in read_ranges(connect(each), [QueueRange(FIRST, 2, 6)], each, SCHEMA))
        seen.add(tuple(links()))
    assert rows == 4000
    assert len(seen) == 1
    assert len(seen.pop()) == 1


def test_what_an_idle_stream_asks_is_one_call_each(there: EmbeddedCluster, brokers: ClusterBrokers) -> None:
    """test_stream_reader.py counts the questions of an idle stream; here is what each of them costs."""
    calls: list[int] = []

    def count(request: Any, _: object) -> None:
        calls.append(request.code)

    hooks = there.standalone.broker._servers[0].dispatcher.after, there.standalone.name_server._server.dispatcher.after
    for after in hooks:
        after.append(count)
    brokers.run(brokers.ends("T", "broker-a"))
    brokers.run(brokers.queues("T"))
    brokers.run(brokers.keep_offset("G", FIRST, 1))
    for after in hooks:
        after.remove(count)
    wanted = (RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.UPDATE_CONSUMER_OFFSET)
    assert [code for code in calls if code in wanted] == list(wanted)
