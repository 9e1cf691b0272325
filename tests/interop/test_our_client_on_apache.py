"""Our producer and consumers on Apache's own name server and broker: 10,000 messages, by tag, both orders, retries."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from interop.apache import ApacheCluster
from rocketlake import Consumer, ConsumeResult, DeadLetters, Message, Producer, PullConsumer, PushConsumer
from rocketlake.model.message import StoredMessage
from tests.stored import known_queues

pytestmark = pytest.mark.interop

COUNT = 10_000
TAGS = ("A", "B", "C", "D")


async def send_all(namesrv: str, topic: str) -> None:
    """Numbered messages, those of one key modulo 8 in order in one queue."""
    async with Producer("ours", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"-1", tags="none"))

        async def lane(number: int) -> None:
            for n in range(number, COUNT, 8):
                message = Message(topic, str(n).encode(), tags=TAGS[n % 4], keys=f"k{n}")
                result = await producer.send(message, key=str(number))
                assert result.message_id

        await asyncio.gather(*(lane(number) for number in range(8)))


async def wait_until(reached: asyncio.Event, seconds: float) -> None:
    await asyncio.wait_for(reached.wait(), seconds)


async def test_ten_thousand_messages_by_tag_concurrently_and_orderly(apache: ApacheCluster) -> None:
    await send_all(apache.namesrv, "OursOnApache")
    by_tag: Counter[int] = Counter()
    refused: set[int] = set()
    tags_done, all_done = asyncio.Event(), asyncio.Event()

    def take_by_tag(messages: list[StoredMessage]) -> ConsumeResult | None:
        for message in messages:
            number = int(message.body)
            assert message.tags in ("A", "C")
            if number % 500 == 0 and number not in refused:
                refused.add(number)
                return ConsumeResult.LATER
            by_tag[number] += 1
        if len(by_tag) == COUNT // 2:
            tags_done.set()
        return None

    ordered: dict[int, list[int]] = {}
    in_order: Counter[int] = Counter()

    def take_in_order(messages: list[StoredMessage]) -> None:
        for message in messages:
            ordered.setdefault(message.queue_id, []).append(message.queue_offset)
            in_order[int(message.body)] += 1
        if len(in_order) == COUNT + 1:
            all_done.set()

    tagged = PushConsumer("ours_by_tag", namesrv=apache.namesrv, listener=take_by_tag, from_where="first")
    tagged.subscribe("OursOnApache", "A || C")
    orderly = PushConsumer(
        "ours_in_order", namesrv=apache.namesrv, listener=take_in_order, orderly=True, from_where="first"
    )
    orderly.subscribe("OursOnApache", "*")
    await tagged.start()
    await orderly.start()
    try:
        await wait_until(all_done, 90)
        await wait_until(tags_done, 90)
    finally:
        await tagged.stop()
        await orderly.stop()
    assert set(by_tag) == {n for n in range(COUNT) if TAGS[n % 4] in ("A", "C")}
    assert refused <= set(by_tag), "each refused message came again"
    assert all(offsets == sorted(offsets) for offsets in ordered.values())
    assert set(in_order) == set(range(-1, COUNT))


@pytest.mark.smoke
async def test_pull_consumer_seeks_and_commits_on_apache(apache: ApacheCluster) -> None:
    async with Producer("ours_pull", namesrv=apache.namesrv) as producer:
        for n in range(40):
            await producer.send(Message("OursPulled", str(n).encode()))
    async with PullConsumer("ours_pulling", namesrv=apache.namesrv) as consumer:
        queues = await known_queues(consumer, "OursPulled")
        consumer.assign(queues)
        await consumer.seek_to_begin(*queues)
        found: list[int] = []
        while len(found) < 40:
            found += [int(message.body) for message in await consumer.poll(timeout_ms=5000)]
        assert sorted(found) == list(range(40))
        await consumer.commit()
        assert sum([await consumer.committed(queue) for queue in queues]) == 40


async def test_dead_letters_of_apache_are_read_repaired_and_sent_again(apache: ApacheCluster) -> None:
    topic, group, namesrv = "OursGivenUp", "ours_giving_up", apache.namesrv
    async with Producer("ours", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"7 euros", tags="paid", keys="k"))
    async with Consumer(group, topic, namesrv=namesrv, from_where="first") as consumer:
        assert await consumer.receive(timeout_ms=60_000)
        consumer.later(delay_level=-1)
        async with DeadLetters(group, namesrv=namesrv) as letters:
            async with asyncio.timeout(60):
                while not (found := [letter async for letter in letters.read()]):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await letters.send_again(found[0], body=b"7")
            assert [letter async for letter in letters.read()] == []
        again = await consumer.receive(timeout_ms=60_000)
        assert again is not None
        assert (again.topic, again.body, again.tags, again.message_id) == (topic, b"7", "paid", found[0].message_id)
