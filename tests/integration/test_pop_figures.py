"""The lag of groups that pop: what is not popped yet, what is in flight, what is overdue, in all figures alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer
from rocketlake.admin import Admin
from rocketlake.admin.cluster import Cluster
from rocketlake.admin.topic_drain import Draining, drained
from rocketlake.protocol.bodies.stats import ConsumeStats
from rocketlake.protocol.headers.admin_group import ConsumeStatsHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.standalone import Standalone
from tests.integration.scraped import scrape
from tests.pops import PopClient

RETRY = "%RETRY%g_T"
NAMES = ("lag_messages", "inflight_messages", "ready_messages")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    settings = {"reviveInterval": 20, "timerPrecisionMs": 100}
    async with Standalone(tmp_path / "cluster", metrics_ports=(0, 0), settings=settings) as cluster:
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("T", queues=1)
        async with Producer("p", namesrv=cluster.namesrv_address) as producer:
            for number in range(5):
                await producer.send(Message("T", b"%d" % number))
        yield cluster


@pytest.fixture
async def client(cluster: Standalone) -> AsyncIterator[PopClient]:
    client = PopClient(cluster.broker.address)
    yield client
    await client.net.close()


async def figures(cluster: Standalone, topic: str = "T") -> tuple[int, int, int, int]:
    """(lag, in flight, overdue, ready) of the group, as the metrics and as the admin library say it: they agree."""
    told, found = await by_admin(cluster, topic), await scrape(cluster.broker.monitor.address)
    while (again := await by_admin(cluster, topic)) != told:  # what is overdue, or comes again, changes with the time
        told, found = again, await scrape(cluster.broker.monitor.address)
    lag, unacked, ready = (
        int(found.value(f"rocketmq_consumer_{name}", consumer_group="g", topic=topic)) for name in NAMES
    )
    overdue = int(found.value("rocketlake_group_overdue_messages", consumer_group="g", topic=topic))
    assert told == (lag, unacked - overdue, overdue, ready)
    return told


async def by_admin(cluster: Standalone, topic: str = "T") -> tuple[int, int, int, int]:
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        (queue,) = [queue for queue in (await admin.group("g")).queues if queue.topic == topic]
    return queue.lag, queue.in_flight, queue.overdue, queue.next_offset - queue.consumed


async def test_what_is_popped_counts_until_it_is_acknowledged(cluster: Standalone, client: PopClient) -> None:
    popped = await client.pop(60_000, max_msg_nums=3)
    assert await figures(cluster) == (5, 3, 0, 2)
    await client.ack(popped[0])
    assert await figures(cluster) == (4, 2, 0, 2)
    await client.ack(popped[0])
    await client.change(popped[1], 120_000)
    assert (await figures(cluster))[0] >= 3, "a second ack of one message may count for its neighbour, no more"
    await client.ack(popped[2])
    rest = await client.pop(60_000)
    for each in rest:
        await client.ack(each)
    assert await figures(cluster) == (1, 1, 0, 0), "the one whose time was changed"
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        (summary,) = [each for each in await admin.groups() if each.name == "g"]
    assert summary.lag == 1


async def test_what_is_overdue_comes_again_in_the_retry_topic(cluster: Standalone, client: PopClient) -> None:
    assert len(await client.pop(1500)) == 5
    async with asyncio.timeout(60):
        while (told := await by_admin(cluster)) != (0, 0, 0, 0):
            assert told[0] == told[1] + told[2], "in flight, or overdue, until they are brought back"
    assert await figures(cluster, RETRY) == (5, 0, 0, 5)
    for each in await client.pop(60_000):
        assert each.topic == RETRY
        await client.ack(each)
    assert await figures(cluster, RETRY) == (0, 0, 0, 0)
    found = await scrape(cluster.broker.monitor.address)
    assert found.value("rocketmq_pop_revive_latency_milliseconds", queue_id="0") == 0
    assert found.value("rocketmq_pop_revive_lag_milliseconds", queue_id="0") >= 0
    assert found.value("rocketlake_held_pops") == 0


async def test_mqadmin_sees_what_is_in_flight(cluster: Standalone, client: PopClient) -> None:
    """It shows what lies between the two offsets of a queue."""
    await client.pop(60_000, max_msg_nums=3)
    answer = await client.ask(Code.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group="g", topic="T"))
    (row,) = ConsumeStats.decode(answer.body_bytes).offsets.values()
    assert row.pull_offset - row.consumer_offset == 3
    assert (row.lag, row.pop_in_flight, row.pop_overdue) == (5, 3, None)


async def test_pops_in_order_count_like_pulls(cluster: Standalone, client: PopClient) -> None:
    popped = await client.pop(60_000, max_msg_nums=3, order=True)
    found = await scrape(cluster.broker.monitor.address)
    told = [found.value(f"rocketmq_consumer_{name}", consumer_group="g", topic="T") for name in NAMES]
    assert told == [5, 3, 2]
    for each in popped:
        await client.ack(each)
    found = await scrape(cluster.broker.monitor.address)
    told = [found.value(f"rocketmq_consumer_{name}", consumer_group="g", topic="T") for name in NAMES]
    assert told == [2, 0, 2]


async def test_a_drain_waits_for_what_is_in_flight(cluster: Standalone, client: PopClient) -> None:
    popped = await client.pop(600_000)
    await client.ack(popped[0])
    told: asyncio.Queue[Draining] = asyncio.Queue()
    async with Cluster(cluster.namesrv_address) as asked, asyncio.timeout(60):
        settings = await asked.settings("T")
        draining = asyncio.ensure_future(drained(asked, "T", settings, told.put_nowait))
        while (await told.get()).behind != {"g": 4}:
            pass
        for each in popped[1:]:
            await client.ack(each)
        while (last := await told.get()).behind:
            pass
        assert last.quiet_seconds < last.quiet_seconds_wanted, "it told so before the topic had been quiet for long"
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)


async def test_a_drain_that_is_stopped_at_once_gives_the_permission_back(cluster: Standalone) -> None:
    topics = cluster.broker.ground.topics
    async with Cluster(cluster.namesrv_address) as asked, asyncio.timeout(60):
        settings = await asked.settings("T")
        draining = asyncio.ensure_future(drained(asked, "T", settings, lambda _: None))

        def stop(name: str) -> None:
            config = topics.get(name)
            if config is not None and not config.is_writeable:
                draining.cancel()  # Ctrl-C, as soon as the first broker has taken the permission

        topics.on_change.append(stop)
        with pytest.raises(asyncio.CancelledError):
            await draining
        assert await asked.settings("T") == settings
