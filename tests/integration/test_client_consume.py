"""Our consumers on our own cluster: 10,000 messages by tag and in order, retries, dead letters, rebalance."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Consumer, ConsumerConfig, ConsumeResult, Message, Producer, PushConsumer
from rocketlake.base.clock import Millis, SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.listener import Answer
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone

COUNT = 10_000
TAGS = ("A", "B", "C", "D")
QUICK_DELAYS = {"messageDelayLevel": " ".join(["1s"] * 18)}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster", settings=QUICK_DELAYS) as cluster:
        yield cluster


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until the condition holds; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (what is awaited happens in listeners and other members)
            await asyncio.sleep(0.02)


async def send_numbers(namesrv: str, topic: str, count: int, lanes: int = 8) -> None:
    """Numbered messages; those equal modulo `lanes` go to one queue, in order."""
    async with Producer("senders", namesrv=namesrv) as producer:
        first = await producer.send(Message(topic, b"first", tags="none"))
        assert first.message_id

        async def lane(number: int) -> None:
            for n in range(number, count, lanes):
                message = Message(topic, str(n).encode(), tags=TAGS[n % 4], keys=f"k{n}")
                await producer.send(message, key=number)

        await asyncio.gather(*(lane(number) for number in range(lanes)))


class Collector:
    """A listener that counts bodies and refuses some of them once."""

    def __init__(self, refuse: Callable[[int], bool] = lambda number: False) -> None:
        self.seen: Counter[int] = Counter()
        self.tags: set[str | None] = set()
        self.by_queue: dict[int, list[int]] = {}
        self.refused: set[int] = set()
        self.topics: set[str] = set()
        self._refuse = refuse

    async def __call__(self, messages: list[StoredMessage]) -> Answer:
        for message in messages:
            if message.body == b"first":
                continue
            number = int(message.body)
            if self._refuse(number) and number not in self.refused:
                self.refused.add(number)
                return ConsumeResult.LATER
            self.tags.add(message.tags)
            self.topics.add(message.topic)
            self.by_queue.setdefault(number % 8, []).append(number)
            self.seen[number] += 1
        return ConsumeResult.SUCCESS


async def test_ten_thousand_by_tag_concurrently_with_retries(cluster: Standalone) -> None:
    await send_numbers(cluster.namesrv_address, "Numbers", COUNT)
    collector = Collector(refuse=lambda number: number % 1000 == 0)
    consumer = PushConsumer(
        "by_tag", namesrv=cluster.namesrv_address, listener=collector, from_where="first", config=ConsumerConfig()
    )
    consumer.subscribe("Numbers", "A || C")
    async with consumer:
        await until(lambda: len(collector.seen) == COUNT // 2)
    assert set(collector.seen) == {n for n in range(COUNT) if TAGS[n % 4] in ("A", "C")}
    assert collector.tags == {"A", "C"}
    assert collector.refused == set(range(0, COUNT, 1000))
    assert collector.topics == {"Numbers"}, "a retried message shows its own topic"


async def test_ten_thousand_in_order_with_retries(cluster: Standalone) -> None:
    await send_numbers(cluster.namesrv_address, "Numbers", COUNT)
    collector = Collector(refuse=lambda number: number % 2500 == 0)
    consumer = PushConsumer(
        "in_order",
        namesrv=cluster.namesrv_address,
        listener=collector,
        orderly=True,
        from_where="first",
        config=ConsumerConfig(suspend_ms=10),
    )
    consumer.subscribe("Numbers")
    async with consumer:
        await until(lambda: len(collector.seen) == COUNT)
    assert collector.by_queue == {lane: list(range(lane, COUNT, 8)) for lane in range(8)}
    assert len(collector.refused) == 4


async def test_a_second_member_takes_half_of_the_queues_and_gives_them_back(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 40)

    def member() -> PushConsumer:
        consumer = PushConsumer("shared", namesrv=namesrv, listener=Collector(), from_where="first")
        consumer.subscribe("Numbers")
        return consumer

    def topic_queues(consumer: PushConsumer) -> set[int]:
        return {queue.queue_id for queue in consumer.assignment if queue.topic == "Numbers"}

    first, second = member(), member()
    async with first:
        await until(lambda: len(topic_queues(first)) == 4)
        async with second:
            await until(lambda: len(topic_queues(first)) == len(topic_queues(second)) == 2)
            assert topic_queues(first) | topic_queues(second) == {0, 1, 2, 3}
            assert topic_queues(first) & topic_queues(second) == set()
        await until(lambda: len(topic_queues(first)) == 4)


async def test_every_message_reaches_one_of_the_members_while_members_come_and_go(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    collector = Collector()

    def member() -> PushConsumer:
        consumer = PushConsumer("crowd", namesrv=namesrv, listener=collector, from_where="first")
        consumer.subscribe("Numbers")
        return consumer

    async with member():
        sending = asyncio.create_task(send_numbers(namesrv, "Numbers", 3000))
        for _ in range(2):
            async with member(), member():
                await asyncio.sleep(0.3)
        await sending
        await until(lambda: len(collector.seen) == 3000)


async def test_a_message_that_always_fails_ends_in_the_dead_letters(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    tries: list[int] = []

    async def failing(messages: list[StoredMessage]) -> None:
        tries.append(messages[0].reconsume_times)
        raise ValueError("never works")

    async with Producer("senders", namesrv=namesrv) as producer:
        sent = await producer.send(Message("Doomed", b"poison"))
    consumer = PushConsumer(
        "victims", namesrv=namesrv, listener=failing, from_where="first", config=ConsumerConfig(reconsume_max=2)
    )
    consumer.subscribe("Doomed")
    async with consumer, Consumer("undertaker", "%DLQ%victims", namesrv=namesrv, from_where="first") as dead:
        async with asyncio.timeout(30):
            buried = await anext(dead)
    assert tries == [0, 1, 2]
    assert buried.body == b"poison"
    assert buried.message_id == sent.message_id
    assert buried.retry_topic == "Doomed"


async def test_an_ordered_message_that_always_fails_makes_room_after_its_limit(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    seen: list[bytes] = []

    async def failing(messages: list[StoredMessage]) -> Answer:
        seen.append(messages[0].body)
        return ConsumeResult.LATER if messages[0].body == b"poison" else None

    async with Producer("senders", namesrv=namesrv) as producer:
        for body in (b"poison", b"good"):
            await producer.send(Message("Doomed", body), key=1)
    consumer = PushConsumer(
        "victims",
        namesrv=namesrv,
        listener=failing,
        orderly=True,
        from_where="first",
        config=ConsumerConfig(reconsume_max=2, suspend_ms=10),
    )
    consumer.subscribe("Doomed")
    async with consumer, Consumer("undertaker", "%DLQ%victims", namesrv=namesrv, from_where="first") as dead:
        async with asyncio.timeout(30):
            buried = await anext(dead)
    assert seen == [b"poison", b"poison", b"poison", b"good"]
    assert buried.body == b"poison"


async def test_an_ordered_batch_makes_one_dead_letter_of_each_message(cluster: Standalone) -> None:
    """The first one has failed more often than the second when both are in one batch."""
    calls: list[list[bytes]] = []

    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:

        async def failing(messages: list[StoredMessage]) -> ConsumeResult:
            calls.append([message.body for message in messages])
            if len(calls) == 1:
                await producer.send(Message("Doomed", b"second"), key="one queue")
                await until(lambda: any(held.count == 2 for held in consumer._held.all()))
            return ConsumeResult.SUCCESS if calls[-1] == [b"good"] else ConsumeResult.LATER

        await producer.send(Message("Doomed", b"first"), key="one queue")
        consumer = PushConsumer(
            "victims",
            namesrv=cluster.namesrv_address,
            listener=failing,
            orderly=True,
            from_where="first",
            config=ConsumerConfig(reconsume_max=3, suspend_ms=10, batch_size=2),
        )
        consumer.subscribe("Doomed")
        async with consumer:
            await until(lambda: len(calls) == 5)
            await producer.send(Message("Doomed", b"good"), key="one queue")
            await until(lambda: calls[-1] == [b"good"])
    both = [b"first", b"second"]
    assert calls == [[b"first"], both, both, both, [b"second"], [b"good"]]
    assert cluster.broker.store.max_offset("%DLQ%victims", 0) == 2


async def test_a_restart_of_the_cluster_in_between_loses_nothing(tmp_path: Path) -> None:
    async with Standalone(tmp_path / "cluster") as cluster:
        namesrv, broker = cluster.namesrv_address, cluster.broker_address
        ports = {"namesrv_port": int(namesrv.split(":")[1]), "broker_port": int(broker.split(":")[1])}
        collector = Collector()
        consumer = PushConsumer("steady", namesrv=namesrv, listener=collector, from_where="first")
        consumer.subscribe("Numbers")
        producer = Producer("senders", namesrv=namesrv)
        await producer.start()
        for n in range(100):
            await producer.send(Message("Numbers", str(n).encode()))
        await consumer.start()
        await until(lambda: len(collector.seen) == 100)
    async with Standalone(tmp_path / "cluster", **ports):  # type: ignore[arg-type]
        for n in range(100, 200):
            await send_stubbornly(producer, Message("Numbers", str(n).encode()))
        await until(lambda: len(collector.seen) == 200)
        await consumer.stop()
        await producer.stop()
    assert set(collector.seen) == set(range(200))


async def send_stubbornly(producer: Producer, message: Message) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await producer.send(message)
            except RocketLakeError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_offsets_are_kept_between_runs_of_a_group(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 100)
    first = Collector()
    consumer = PushConsumer("kept", namesrv=namesrv, listener=first, from_where="first")
    consumer.subscribe("Numbers")
    async with consumer:
        await until(lambda: len(first.seen) == 100)
    async with Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("Numbers", b"100"))
    second = Collector()
    consumer = PushConsumer("kept", namesrv=namesrv, listener=second, from_where="first")
    consumer.subscribe("Numbers")
    async with consumer:
        await until(lambda: second.seen)
    assert set(second.seen) == {100}


async def test_broadcasting_gives_every_member_every_message_and_remembers(cluster: Standalone, tmp_path: Path) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "News", 40)

    def member(name: str, collector: Collector) -> PushConsumer:
        consumer = PushConsumer(
            "readers",
            namesrv=namesrv,
            listener=collector,
            broadcasting=True,
            from_where="first",
            client_config=ClientConfig(instance_name=name),
            config=ConsumerConfig(offsets_dir=str(tmp_path / "offsets")),
        )
        consumer.subscribe("News")
        return consumer

    one, two = Collector(), Collector()
    async with member("one", one), member("two", two):
        await until(lambda: len(one.seen) == len(two.seen) == 40)
    async with Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("News", b"40"))
    again = Collector()
    async with member("one", again):
        await until(lambda: again.seen)
    assert set(again.seen) == {40}


async def test_subscriptions_may_change_while_running(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "First", 40)
    await send_numbers(namesrv, "Second", 40)
    collector = Collector()
    consumer = PushConsumer("changing", namesrv=namesrv, listener=collector, from_where="first")
    consumer.subscribe("First")
    async with consumer:
        await until(lambda: len(collector.seen) == 40)
        consumer.subscribe("Second")
        await until(lambda: collector.topics == {"First", "Second"})
        consumer.unsubscribe("First")
        await until(lambda: all(queue.topic != "First" for queue in consumer.assignment))


async def test_plain_functions_run_on_threads(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 100)
    seen: set[bytes] = set()

    def listener(messages: list[StoredMessage]) -> None:
        seen.update(message.body for message in messages)

    consumer = PushConsumer(
        "threads", namesrv=namesrv, listener=listener, from_where="first", config=ConsumerConfig(batch_size=10)
    )
    consumer.subscribe("Numbers")
    async with consumer:
        await until(lambda: len(seen) == 101)


async def test_async_for_acknowledges_what_it_has_seen(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 20)
    async with Consumer("loop", "Numbers", "A || B || C || D", namesrv=namesrv, from_where="first") as consumer:
        seen = []
        async for message in consumer:
            seen.append(int(message.body))
            if len(seen) == 12:
                break
    async with Consumer("loop", "Numbers", "A || B || C || D", namesrv=namesrv, from_where="first") as consumer:
        async for message in consumer:
            seen.append(int(message.body))
            if len(seen) == 20:
                break
    assert sorted(seen) == list(range(20))


async def test_async_for_an_error_in_the_block_brings_the_message_again(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("Numbers", b"7"))
    with pytest.raises(ZeroDivisionError):
        async with Consumer("loop", "Numbers", namesrv=namesrv, from_where="first") as consumer:
            async for _ in consumer:
                raise ZeroDivisionError
    async with Consumer("loop", "Numbers", namesrv=namesrv, from_where="first") as consumer:
        again = await consumer.receive(timeout_ms=20_000)
    assert again is not None
    assert (again.body, again.reconsume_times, again.topic) == (b"7", 1, "Numbers")


async def test_async_for_a_message_may_be_put_off(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("Numbers", b"7"))
    async with Consumer("loop", "Numbers", namesrv=namesrv, from_where="first") as consumer:
        first = await anext(consumer)
        consumer.later(delay_level=1)
        second = await consumer.receive(timeout_ms=20_000)
    assert second is not None
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)


async def test_receive_gives_up_after_its_time_and_stop_ends_a_waiting_loop(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 8)
    consumer = Consumer("loop", "Numbers", "NoSuchTag", namesrv=namesrv)
    await consumer.start()
    assert await consumer.receive(timeout_ms=50) is None

    async def loop() -> int:
        return len([message async for message in consumer])

    waiting = asyncio.create_task(loop())
    await asyncio.sleep(0.05)
    await consumer.stop()
    assert await asyncio.wait_for(waiting, 5) == 0


async def test_a_stop_waits_for_no_message_that_nobody_took(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send_numbers(namesrv, "Numbers", 40)
    config = ConsumerConfig(drain_ms=3_600_000)
    consumer = Consumer("readers", "Numbers", namesrv=namesrv, from_where="first", config=config)
    await consumer.start()
    assert await consumer.receive(timeout_ms=30_000) is not None
    await asyncio.wait_for(consumer.stop(), 60)


class _SteppedClock(SystemClock):
    """The clock of a machine whose wall clock is set."""

    def __init__(self) -> None:
        self.step_ms = 0

    def now_ms(self) -> Millis:
        return super().now_ms() + self.step_ms


async def test_a_filter_counts_that_is_made_after_a_step_of_the_clock(cluster: Standalone) -> None:
    """Brokers filter by the newest version of a subscription: a clock that was set back makes none that is older."""
    clock, collector, namesrv = _SteppedClock(), Collector(), cluster.namesrv_address
    consumer = PushConsumer("stepped", namesrv=namesrv, listener=collector, from_where="first", clock=clock)
    consumer.subscribe("Stepped", "A")
    async with Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("Stepped", b"0", tags="A"))
        async with consumer:
            await until(lambda: collector.seen[0])
            clock.step_ms = -600_000
            consumer.subscribe("Stepped", "A || B")
            members = cluster.broker.clients.consumers
            await until(lambda: "B" in members.subscription("stepped", "Stepped").tags)
            await producer.send(Message("Stepped", b"1", tags="B"))
            await until(lambda: collector.seen[1])
