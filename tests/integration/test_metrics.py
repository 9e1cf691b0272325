"""A running broker and name server tell their figures, and whether they are well, by HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer, PullConsumer
from rocketlake.model.positions import QueueOffset
from rocketlake.standalone import Standalone
from tests.integration.scraped import get, scrape


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path, metrics_ports=(0, 0)) as standalone:
        yield standalone


async def send(cluster: Standalone, topic: str, count: int) -> None:
    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
        for number in range(count):
            await producer.send(Message(topic, str(number).encode()), selector=lambda queues, _: queues[0])


async def test_messages_are_counted_as_apache_names_them(cluster: Standalone) -> None:
    await send(cluster, "orders", 7)
    found = await scrape(cluster.broker.monitor.address)
    own = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
    expected = {**own, "topic": "orders", "message_type": "normal", "is_system": "false"}
    assert (expected, 7.0) in found.samples["rocketmq_messages_in_total"]
    assert found.value("rocketmq_throughput_in_total", topic="orders") > 7 * 100
    assert found.value("rocketmq_broker_permission") == 6
    assert found.value("rocketlake_put_seconds_count") == 7


async def test_lag_is_told_in_messages_and_in_time(cluster: Standalone) -> None:
    await send(cluster, "orders", 5)
    async with PullConsumer("kitchen", namesrv=cluster.namesrv_address, auto_commit=False) as consumer:
        consumer.assign(await consumer.fetch_queues("orders"))
        await consumer.seek_to_begin()
        taken = 0
        while taken < 5:
            taken += len(await consumer.poll(timeout_ms=1000))
    cluster.broker.offsets.commit("kitchen", "orders", 0, 2)
    found = await scrape(cluster.broker.monitor.address)
    group = {"consumer_group": "kitchen", "topic": "orders", "is_retry": "false", "is_system": "false"}
    assert found.value("rocketmq_consumer_lag_messages", **group) == 3
    assert found.value("rocketmq_messages_out_total", consumer_group="kitchen", topic="orders") >= 5
    assert found.value("rocketlake_group_lag_messages_max_queue", **group) == 3
    stored_ms = cluster.broker.store.store_ms_at("orders", 0, QueueOffset(2))
    age_ms = found.value("rocketmq_consumer_lag_latency_milliseconds", **group)
    assert 0 <= age_ms <= cluster.broker.ground.clock.now_ms() - stored_ms
    assert found.value("rocketlake_group_lag_seconds", **group) == age_ms / 1000


async def test_health_and_readiness_say_what_is_wrong(cluster: Standalone) -> None:
    address = cluster.broker.monitor.address
    assert [(await get(address, page)).status for page in ("/health", "/ready")] == [200, 200]
    cluster.broker.health.set("store/writes", "the disk is full")
    cluster.broker.refuse_messages("it is being drained")
    health, ready = await get(address, "/health"), await get(address, "/ready")
    assert (health.status, ready.status) == (503, 503)
    assert json.loads(health.body)["troubles"]["store/writes"]["reason"] == "the disk is full"
    assert json.loads(ready.body)["reasons"] == ["it is being drained"]


async def test_a_name_server_tells_its_routes(cluster: Standalone) -> None:
    await send(cluster, "orders", 1)
    address = cluster.name_server.monitor.address
    found = await scrape(address)
    assert found.value("rocketlake_routes_brokers", cluster_name="DefaultCluster") == 1
    assert found.value("rocketlake_routes_topics") >= 1
    assert (await get(address, "/ready")).status == 200


async def test_only_the_pages_are_served(cluster: Standalone) -> None:
    address = cluster.broker.monitor.address
    for path in ("/", "/metrics/", "/metrics/../health", "//metrics", "/%6detrics", "/etc/passwd"):
        assert (await get(address, path)).status == 404
    assert (await get(address, "/metrics?topic=x")).status == 200
