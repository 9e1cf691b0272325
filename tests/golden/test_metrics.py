"""Our names, types and labels are those of the page of an Apache broker (interop/record_metrics.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake import Consumer, Message, Producer
from rocketlake.standalone import Standalone
from tests.integration.scraped import Scrape, get, parse

GOLDEN = Path(__file__).with_name("metrics.txt")
LABELS_WITHOUT_USE = {"otel_scope_name"}
"""The library's name; no dashboard asks for it."""

PER_MESSAGE = {"rocketmq_message_size", "rocketmq_rpc_latency_milliseconds"}
"""They cost something with each message or request."""
BY_TOPIC = {
    "rocketmq_commit_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_finish_message_latency_milliseconds",
    "rocketmq_half_messages",
    "rocketmq_delay_message_latency_seconds",
    "rocketmq_timer_enqueue_total",
    "rocketmq_timing_messages",
}
"""We count such messages together: rocketlake_half_messages, rocketlake_timer_messages."""
OF_APACHES_WAY = {
    "rocketmq_timer_dequeue_lag",
    "rocketmq_timer_enqueue_latency_milliseconds",
    "target_info",
}
LACKING = PER_MESSAGE | BY_TOPIC | OF_APACHES_WAY


def families(text: str) -> dict[str, str]:
    """Name -> type."""
    lines = [line.split() for line in text.splitlines() if line.startswith("# TYPE ")]
    return {name: kind for _, _, name, kind in lines}


def labels(found: Scrape, name: str) -> set[str]:
    return {label for has, _ in found.samples[name] for label in has} - LABELS_WITHOUT_USE


@pytest.fixture(scope="module")
def apaches() -> str:
    return GOLDEN.read_text()


async def ours(root: Path) -> str:
    async with (
        Standalone(root, metrics_ports=(0, 0)) as cluster,
        Producer("senders", namesrv=cluster.namesrv_address) as producer,
    ):
        await producer.send(Message("orders", b"1"))
        await producer.send(Message("delayed", b"1", delay_level=3))
        async with Consumer("kitchen", "orders", namesrv=cluster.namesrv_address, from_where="first") as consumer:
            async for _ in consumer:
                break
            cluster.broker.offsets.commit("kitchen", "orders", 0, 0)
            return (await get(cluster.broker.monitor.address, "/metrics")).body.decode()


async def test_names_types_and_labels_are_apaches(apaches: str, tmp_path: Path) -> None:
    text = await ours(tmp_path)
    theirs, found = families(apaches), families(text)
    pops = {name for name in theirs if name.startswith("rocketmq_pop_")}
    assert theirs.keys() - found.keys() - pops == LACKING
    shared = theirs.keys() & found.keys()
    assert {name: found[name] for name in shared} == {name: theirs[name] for name in shared}
    their_samples, our_samples = parse(apaches), parse(text)
    for name in sorted(shared & our_samples.samples.keys()):
        assert labels(our_samples, name) == labels(their_samples, name), name
    assert len(shared & our_samples.samples.keys()) > 20
    assert our_samples.value("rocketmq_messages_in_total", topic="SCHEDULE_TOPIC_XXXX", message_type="delay") == 1
