"""Our push consumer in POP mode, set by Apache's mqadmin, on Apache's broker 5.5.0 and on ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.apache import apache_cluster
from interop.replicas import mqadmin
from rocketlake import ConsumerConfig, Message, Producer, PushConsumer, StoredMessage
from rocketlake.admin import Admin
from rocketlake.model.pop import ANY_QUEUE

pytestmark = pytest.mark.interop

PEER = "server550"
COUNT = 300
CONFIG = ConsumerConfig(
    client_rebalance=False, rebalance_interval_ms=500, hold_ms=2000, pop_invisible_ms=5000, retry_delay_level=3
)
"""A failed message comes again after 10 s: by then all that was not acknowledged would have come, too."""


@pytest.fixture(scope="module")
def apache550(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_cluster(tmp_path_factory.mktemp("apache550"), peer=PEER) as cluster:
        yield cluster.namesrv


@pytest.fixture(params=["apache550", "our_namesrv"])
def namesrv(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not reached():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.05)


async def test_a_consumer_pops_when_mqadmin_says_so(namesrv: str, tmp_path: Path) -> None:
    topic, group = "PopMode", "pop_mode"
    bodies: Counter[str] = Counter()
    tries: Counter[str] = Counter()

    async def listener(messages: list[StoredMessage]) -> None:
        for message in messages:
            assert message.topic == topic
            body = message.body.decode()
            bodies[body] += 1
            tries[body] = message.reconsume_times
            if body in {"again-1", "again-2"} and message.reconsume_times == 0:
                raise ValueError("later")

    async def set_mode(mode: str) -> None:
        command = f"setConsumeMode -n {namesrv} -c DefaultCluster -t {topic} -g {group} -m {mode} -q 0".split()
        (said,) = await asyncio.to_thread(mqadmin, tmp_path, command, peer=PEER)
        assert f"consume mode[{mode}]" in said
        await until(
            lambda: (
                {each.queue_id == ANY_QUEUE for each in consumer.assignment if each.topic == topic} == {mode == "POP"}
            )
        )

    async def send(word: str, count: int) -> None:
        for number in range(count):
            await producer.send(Message(topic, f"{word}-{number}".encode()))
        await until(lambda: sum(body.startswith(f"{word}-") for body in bodies) == count)

    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic(topic)
        await admin.create_group(group)
    consumer = PushConsumer(group, listener=listener, namesrv=namesrv, from_where="first", config=CONFIG)
    consumer.subscribe(topic)
    async with Producer("p", namesrv=namesrv) as producer, consumer:
        await send("pulled", 20)
        await set_mode("POP")
        await send("popped", COUNT)
        await send("again", 4)
        await until(lambda: bodies["again-1"] == bodies["again-2"] == 2)
        assert tries["again-1"] == tries["again-2"] == 1
    expected = {f"pulled-{n}" for n in range(20)} | {f"popped-{n}" for n in range(COUNT)}
    assert {body: bodies[body] for body in expected} == dict.fromkeys(expected, 1)
