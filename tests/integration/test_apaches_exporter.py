"""Apache's exporter for Prometheus (rocketmq-exporter): its requests, and all that it reads of the answers.

It gives up on a broker at the first figure that it cannot read. Each of its metrics is made here as it makes it; those
of members (rocketmq_client_...) come from what Java's clients tell of themselves: ours tell no rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from rocketlake import Message, Producer, PushConsumer
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import TOOLS_CONSUMER_GROUP
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies import client, stats
from rocketlake.protocol.bodies.route import ClusterInfo, RouteBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_broker import BrokerStatsHeader
from rocketlake.protocol.headers.admin_group import ConsumerConnectionsHeader, ConsumeStatsHeader
from rocketlake.protocol.headers.admin_topic import TopicConsumersHeader, TopicStatsHeader
from rocketlake.protocol.headers.client import RunningInfoHeader
from rocketlake.protocol.headers.namesrv import GetRouteHeader
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.standalone import Standalone

TOPIC, GROUP = "T", "readers"
_WHOLE_NUMBERS = """
msgPutTotalTodayNow msgGetTotalTodayNow sendThreadPoolQueueHeadWaitTimeMills remainTransientStoreBufferNumbs
queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize bootTimestamp msgPutTotalYesterdayMorning
msgGetTotalYesterdayMorning pullThreadPoolQueueSize commitLogMinOffset pullThreadPoolQueueHeadWaitTimeMills
dispatchMaxBuffer brokerVersion pageCacheLockTimeMills commitLogMaxOffset getMessageEntireTimeMax
msgPutTotalTodayMorning putMessageTimesTotal msgGetTotalTodayMorning sendThreadPoolQueueSize
startAcceptSendRequestTimeStamp putMessageEntireTimeMax earliestMessageTimeStamp queryThreadPoolQueueCapacity
dispatchBehindBytes putMessageSizeTotal sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity
"""


def read_as_the_exporter_does(table: dict[str, str]) -> dict[str, float]:
    """What apache/rocketmq-exporter makes of the runtime figures; it gives up on the broker at the first error."""
    read: dict[str, float] = {}
    capacity = table["commitLogDirCapacity"].split(" ")
    for name, number, unit in (("total", 2, 3), ("free", 6, 7)):
        scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[capacity[unit][:-1]]
        read[name] = float(capacity[number]) * scale
    for part in table["putMessageDistributeTime"].split(" "):
        name, count = part.split(":")
        read[name.replace("[", "").replace("]", "")] = int(count)
    for name in ("putTps", "getMissTps", "getTransferredTps", "getTotalTps", "getFoundTps"):
        assert len([float(rate) for rate in table[name].split(" ")]) == 3
    for name in _WHOLE_NUMBERS.split():
        read[name] = int(table[name])
    for name in (
        "consumeQueueDiskRatio",
        "commitLogDiskRatio",
        "putMessageAverageSize",
        "putLatency99",
        "putLatency999",
    ):
        read[name] = float(table[name])
    read["remainHowManyDataToFlush"] = float(table["remainHowManyDataToFlush"].split(" ")[0])
    assert table["runtime"] and table["brokerVersionDesc"]
    return read


class Exporter:
    """Its requests to one name server and one broker."""

    def __init__(self, cluster: Standalone) -> None:
        self._cluster = cluster
        self._net = NetClient()

    async def ask(self, code: int, header: Header | None = None, *, namesrv: bool = False) -> bytes:
        address = self._cluster.namesrv_address if namesrv else self._cluster.broker_address
        answer = await self._net.invoke(address, Command.request(code, header))
        assert answer.code == 0, (code, answer)
        return answer.body_bytes

    async def sums(self, name: str, key: str) -> int:
        """The sum of the last minute, once there is one: a sample is taken every ten seconds."""
        self._cluster.broker.stats.take_samples()
        found = await self.ask(Code.VIEW_BROKER_STATS_DATA, BrokerStatsHeader(stats_name=name, stats_key=key))
        told = stats.BrokerStats.decode(found)
        assert told.stats_minute.tps >= 0
        return told.stats_minute.sum

    async def stop(self) -> None:
        await self._net.close()


@pytest.fixture
async def exporter(tmp_path: Path) -> AsyncIterator[Exporter]:
    got: list[bytes] = []

    def take(messages: Sequence[StoredMessage]) -> None:
        got.extend(message.body for message in messages)

    async with (
        Standalone(tmp_path) as cluster,
        Producer("writers", namesrv=cluster.namesrv_address) as producer,
    ):
        for body in (b"one", b"two"):
            await producer.send(Message(TOPIC, body))
        consumer = PushConsumer(GROUP, namesrv=cluster.namesrv_address, listener=take, from_where="first")
        consumer.subscribe(TOPIC)
        async with consumer:
            async with asyncio.timeout(30):
                while len(got) < 2:  # noqa: ASYNC110 - a listener's messages
                    await asyncio.sleep(0.01)
            exporter = Exporter(cluster)
            yield exporter
            await exporter.stop()


async def test_the_runtime_figures(exporter: Exporter) -> None:
    table = stats.KVTable.decode(await exporter.ask(Code.GET_BROKER_RUNTIME_INFO)).table
    read = read_as_the_exporter_does(table)
    assert 0 < read["free"] <= read["total"]
    assert read["remainTransientStoreBufferNumbs"] == 2**31 - 1
    assert sum(count for name, count in read.items() if "~" in name or name == "<=0ms") >= 2
    assert read["putLatency99"] > 0


async def test_topics_and_producers(exporter: Exporter) -> None:
    topics = stats.TopicList.decode(await exporter.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, namesrv=True)).topics
    assert {TOPIC, f"%RETRY%{GROUP}"} <= set(topics)
    route = RouteBody.decode(await exporter.ask(Code.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=TOPIC), namesrv=True))
    (broker,) = route.to_model().brokers
    offsets = stats.TopicStats.decode(await exporter.ask(Code.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic=TOPIC)))
    assert sum(each.max_offset for each in offsets.offsets.values()) == 2  # rocketmq_producer_offset
    cluster = ClusterInfo.decode(await exporter.ask(Code.GET_BROKER_CLUSTER_INFO, namesrv=True))
    assert broker.name in cluster.brokers
    producers = client.AllProducers.decode(await exporter.ask(Code.GET_ALL_PRODUCER_INFO)).groups
    assert len(producers["writers"]) == 1  # rocketmq_producer_count


async def test_groups(exporter: Exporter) -> None:
    groups = stats.GroupList.decode(
        await exporter.ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, TopicConsumersHeader(topic=TOPIC))
    ).groups
    assert GROUP in groups
    connected = client.ConsumerConnection.decode(
        await exporter.ask(Code.GET_CONSUMER_CONNECTION_LIST, ConsumerConnectionsHeader(consumer_group=GROUP))
    )
    (member,) = connected.connections  # rocketmq_group_count
    assert (member.client_addr.split(":")[0], connected.message_model) == ("127.0.0.1", "CLUSTERING")
    told = stats.ConsumeStats.decode(
        await exporter.ask(Code.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group=GROUP, topic=TOPIC))
    )
    assert told.consume_tps >= 0  # rocketmq_group_consume_tps
    assert sum(each.broker_offset for each in told.offsets.values()) == 2  # rocketmq_group_diff: less the group's
    assert all(0 <= each.consumer_offset <= each.broker_offset for each in told.offsets.values())
    header = RunningInfoHeader(consumer_group=GROUP, client_id=member.client_id, jstack_enable=False)
    running = client.ConsumerRunningInfo.decode(await exporter.ask(Code.GET_CONSUMER_RUNNING_INFO, header))
    assert {queue.topic for queue in running.queues} >= {TOPIC}
    assert running.status.keys() == {TOPIC, f"%RETRY%{GROUP}"}  # rocketmq_client_consume_..., six figures of each topic


async def test_the_rates_of_topics_groups_and_the_broker(exporter: Exporter) -> None:
    for name, key in (
        ("TOPIC_PUT_NUMS", TOPIC), ("TOPIC_PUT_SIZE", TOPIC), ("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"),
        ("GROUP_GET_SIZE", f"{TOPIC}@{GROUP}"), ("BROKER_PUT_NUMS", "DefaultCluster"),
        ("BROKER_GET_NUMS", "DefaultCluster"),
    ):  # fmt: skip
        assert await exporter.sums(name, key) >= 2, name


async def test_the_age_of_a_message_of_a_group(exporter: Exporter) -> None:
    """rocketmq_group_get_latency_by_storetime: the store time of the message at the group's offset."""
    told = stats.ConsumeStats.decode(
        await exporter.ask(Code.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group=GROUP, topic=TOPIC))
    )
    queue = next(queue for queue, each in told.offsets.items() if each.broker_offset)
    header = PullHeader(
        consumer_group=TOOLS_CONSUMER_GROUP, topic=TOPIC, queue_id=queue.queue_id, queue_offset=0, max_msg_nums=1,
        sys_flag=4, commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
    )  # fmt: skip
    (message,) = decode_records(await exporter.ask(Code.PULL_MESSAGE, header))
    assert message.store_ms > 0
