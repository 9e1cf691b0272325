"""A push consumer that pops, on our own cluster: it follows the mode that is set, and settles each message."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketlake import (
    ConsumerConfig,
    ConsumeResult,
    DeadLetters,
    Message,
    Producer,
    PushConsumer,
    StoredMessage,
    UsageError,
)
from rocketlake.admin import Admin
from rocketlake.client.consumer.allocate import by_config
from rocketlake.client.consumer.listener import Listener
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.standalone import Standalone

CONFIG = ConsumerConfig(client_rebalance=False, rebalance_interval_ms=200, rebalance_retry_ms=50, hold_ms=1000)
SETTINGS = {"reviveInterval": 20, "timerPrecisionMs": 100}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with (
        Standalone(tmp_path / "cluster", settings=SETTINGS) as cluster,
        Admin(namesrv=cluster.namesrv_address) as admin,
    ):
        await admin.create_topic("T", queues=4)
        await admin.create_group("g")
        yield cluster


@pytest.fixture
async def admin(cluster: Standalone) -> AsyncIterator[Admin]:
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        yield admin


@pytest.fixture
async def producer(cluster: Standalone) -> AsyncIterator[Producer]:
    async with Producer("p", namesrv=cluster.namesrv_address) as producer:
        yield producer


def member(cluster: Standalone, listener: Listener, config: ConsumerConfig = CONFIG) -> PushConsumer:
    consumer = PushConsumer("g", listener=listener, namesrv=cluster.namesrv_address, from_where="first", config=config)
    consumer.subscribe("T")
    return consumer


class Seen:
    """A listener that counts bodies."""

    def __init__(self) -> None:
        self.bodies: Counter[bytes] = Counter()
        self.tries: Counter[bytes] = Counter()
        self._changed = asyncio.Condition()

    async def __call__(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            assert message.topic == "T"
            self.bodies[message.body] += 1
            self.tries[message.body] = message.reconsume_times
        async with self._changed:
            self._changed.notify_all()

    async def all_of(self, bodies: set[bytes]) -> None:
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: self.bodies.keys() >= bodies)


async def mode_is(consumer: PushConsumer, *, popped: bool) -> None:
    """The consumer pops, or pulls, its topic."""
    await until(lambda: {each.queue_id == ANY_QUEUE for each in consumer.assignment if each.topic == "T"} == {popped})


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)


async def no_lag(admin: Admin) -> None:
    """What was handed out is safe, so that the group is not behind."""
    async with asyncio.timeout(60):
        while (await admin.group("g")).lag:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_consumer_changes_its_mode_while_it_runs(cluster: Standalone, admin: Admin, producer: Producer) -> None:
    seen = Seen()
    async with member(cluster, seen) as consumer:
        await mode_is(consumer, popped=False)
        sent = set()
        for number, mode in enumerate(("pull", "pop", "pull")):
            assert await admin.set_consume_mode("g", "T", mode) == ["broker-a"]
            await mode_is(consumer, popped=mode == "pop")
            for each in range(8):
                body = b"%d-%d" % (number, each)
                await producer.send(Message("T", body))
                sent.add(body)
            await seen.all_of(sent)
            await no_lag(admin)
    assert seen.bodies == dict.fromkeys(sent, 1)
    (mode_now,) = await admin.consume_modes("g")
    assert (mode_now.topic, mode_now.broker, mode_now.mode) == ("T", "broker-a", "pull")


async def test_a_failed_message_comes_later_and_a_dead_one_goes_to_the_dead_letters(
    cluster: Standalone, admin: Admin, producer: Producer
) -> None:
    await admin.set_consume_mode("g", "T", "pop")
    seen = Seen()

    async def listener(messages: list[StoredMessage]) -> ConsumeResult | None:
        await seen(messages)
        (message,) = messages
        if message.body == b"later" and message.reconsume_times == 0:
            return ConsumeResult.later(delay_level=1, error="not yet")
        if message.body == b"dead":
            message.body = b"changed by the listener"
            raise ValueError("never")
        return None

    for body in (b"later", b"dead", b"good"):
        await producer.send(Message("T", body))
    config = replace(CONFIG, reconsume_max=1, retry_delay_level=1)
    async with member(cluster, listener, config) as consumer, DeadLetters("g", namesrv=cluster.namesrv_address) as dead:
        await mode_is(consumer, popped=True)
        await until(lambda: seen.bodies.total() == 5)
        async with asyncio.timeout(60):
            while not (letters := [letter async for letter in dead.read()]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert [(letter.body, letter.properties["LAST_ERROR"]) for letter in letters] == [(b"dead", "ValueError: never")]
    assert seen.bodies == {b"later": 2, b"dead": 2, b"good": 1}
    assert seen.tries == {b"later": 1, b"dead": 1, b"good": 0}


async def test_two_members_share_one_queue_and_a_hanging_one_blocks_nothing(
    cluster: Standalone, admin: Admin, producer: Producer
) -> None:
    await admin.set_consume_mode("g", "T", "pop")
    hangs, seen = asyncio.Event(), Seen()

    async def hang(_messages: list[StoredMessage]) -> None:
        hangs.set()
        await asyncio.Event().wait()

    queue = (await producer.send(Message("T", b"first"))).queue
    hanging = replace(CONFIG, concurrency=1, pop_batch_size=1, pop_queue_messages_max=1, drain_ms=0)
    async with member(cluster, hang, hanging) as first:
        await mode_is(first, popped=True)
        async with asyncio.timeout(60):
            await hangs.wait()
        async with member(cluster, seen) as second:
            await mode_is(second, popped=True)
            bodies = {b"%d" % number for number in range(40)}
            for body in sorted(bodies):
                await producer.send(Message("T", body), queue=queue)
            await until(lambda: len(seen.bodies) >= len(bodies) - 2)  # two lie with the member that hangs
    assert set(seen.bodies.values()) == {1}


async def test_a_broker_knows_two_strategies(cluster: Standalone) -> None:
    consumer = PushConsumer(
        "g", listener=Seen(), namesrv=cluster.namesrv_address, config=CONFIG, allocate=by_config([])
    )
    consumer.subscribe("T")
    with pytest.raises(UsageError, match="AVG and AVG_BY_CIRCLE only"):
        await consumer.start()


async def test_a_mode_that_cannot_be_is_refused(admin: Admin) -> None:
    with pytest.raises(UsageError, match="'push' is not known"):
        await admin.set_consume_mode("g", "T", "push")
    with pytest.raises(UsageError, match="shared_by=-1 is out of range"):
        await admin.set_consume_mode("g", "T", "pop", shared_by=-1)
