"""A running broker and name server tell their figures, and whether they are well, by HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trustme

from rocketlake import Message, Producer, PullConsumer, TransactionEnd, TransactionProducer
from rocketlake.base.errors import RocketLakeError
from rocketlake.model.positions import QueueOffset
from rocketlake.net import peer
from rocketlake.net.network import CannotListen
from rocketlake.standalone import Standalone
from tests.integration.scraped import get, scrape
from tests.stored import known_queues


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
        consumer.assign(await known_queues(consumer, "orders"))
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


async def test_refusals_are_counted_by_their_cause(cluster: Standalone) -> None:
    await send(cluster, "orders", 1)
    address = cluster.broker.monitor.address
    assert (await scrape(address)).value("rocketlake_busy_total", cause="not_master") == 0
    cluster.broker.refuse_messages("it is being drained")
    with pytest.raises(RocketLakeError):
        await send(cluster, "orders", 1)
    assert (await scrape(address)).value("rocketlake_busy_total", cause="not_master") > 0


async def test_what_waits_is_told(cluster: Standalone) -> None:
    async def unknown(_message: object) -> TransactionEnd:
        return TransactionEnd.UNKNOWN

    async with TransactionProducer(
        "bookers", check=unknown, topics=["booked"], namesrv=cluster.namesrv_address
    ) as producer:
        await producer.send_in_transaction(Message("booked", b"1"), unknown)
        await producer.send(Message("timed", b"1", delay=3000.0))
        await producer.send(Message("timed", b"1", delay_level=18))
        cluster.broker.delay.timer.message_came(0)
        while not (waiting := await cluster.broker.delay.timer.counts()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        found = await scrape(cluster.broker.monitor.address)
    assert [count for _, count in waiting] == [1]
    assert found.value("rocketlake_timer_messages") == 1
    assert found.value("rocketmq_timer_message_snapshot", timer_bound_s="3600") == 1
    assert found.value("rocketlake_delayed_messages", level="18") == 1
    assert found.value("rocketlake_half_messages") == 1
    assert found.value("rocketlake_half_oldest_seconds") >= 0


async def test_the_age_of_an_old_message_is_read_by_a_worker(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if no block of the log were in memory: the loop must not wait for the disk, and the age is told."""
    await send(cluster, "orders", 3)
    store = cluster.broker.store
    cluster.broker.groups.find_or_create("kitchen")
    cluster.broker.offsets.commit("kitchen", "orders", 0, 1)
    brought: list[object] = []
    load, looks = store.residency.load, store.residency.sure_blocks
    monkeypatch.setattr(store.residency, "sure_blocks", lambda *place: looks(*place) if brought else None)

    def bring(cold: list[object], done: Callable[[Exception | None], object]) -> None:
        brought.extend(cold)
        load(cold, done)  # type: ignore[arg-type]

    monkeypatch.setattr(store.residency, "load", bring)
    found = await scrape(cluster.broker.monitor.address)
    assert brought
    assert found.value("rocketmq_consumer_lag_messages", consumer_group="kitchen") == 2
    assert found.value("rocketlake_group_lag_seconds", consumer_group="kitchen") >= 0


async def test_a_broker_that_is_not_told_to_has_no_pages(tmp_path: Path) -> None:
    async with Standalone(tmp_path) as cluster:
        assert (cluster.broker.monitor.address, cluster.name_server.monitor.address) == ("", "")


async def test_a_port_in_use_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with Standalone(tmp_path / "a", metrics_ports=(0, 0)) as one:
        taken = int(one.broker.monitor.address.rpartition(":")[2])
        two = Standalone(tmp_path / "b", metrics_ports=(taken, 0))
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{taken}"):
            await two.start()
    async with Standalone(tmp_path / "b", metrics_ports=(0, 0)) as again:
        assert (await get(again.broker.monitor.address, "/ready")).status == 200


async def test_labels_of_the_settings_stand_on_every_sample(tmp_path: Path) -> None:
    settings = {"metricsLabel": "team:shop"}
    async with Standalone(tmp_path, metrics_ports=(0, 0), settings=settings) as cluster:
        for address in (cluster.broker.monitor.address, cluster.name_server.monitor.address):
            found = await scrape(address)
            assert {has["team"] for samples in found.samples.values() for has, _ in samples} == {"shop"}


async def test_encrypted_pages(tmp_path: Path) -> None:
    """With certificates the pages are served to clients that encrypt, and to others while tlsMode allows it."""
    ca = trustme.CA()
    certificate = ca.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "tls.properties").write_text(
        f"tls.server.certPath={tmp_path}/cert.pem\ntls.server.keyPath={tmp_path}/key.pem\n"
    )
    context = ssl.create_default_context()
    ca.configure_trust(context)
    settings = {"tlsConfigFile": str(tmp_path / "tls.properties")}
    async with Standalone(tmp_path / "d", metrics_ports=(0, 0), settings=settings) as cluster:
        address = cluster.broker.monitor.address
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]), ssl=context)
        writer.write(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        assert (await get(address, "/ready")).status == 200


async def test_slow_requests_are_counted_by_their_code_and_logged(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer, "_SLOW_SECONDS", -1.0)  # each request counts as slow
    await send(cluster, "orders", 1)
    found = await scrape(cluster.broker.monitor.address)
    assert found.value("rocketlake_slow_requests_total", request_code="heart_beat") >= 1
    assert any(message.startswith("slow request: HEART_BEAT of 127.0.0.1:") for message in caplog.messages)
