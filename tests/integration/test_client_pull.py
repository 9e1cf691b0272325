"""The pull consumer and the blocking twin on our own cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, Message, MessageQueue, Producer, ProducerConfig, PullConsumer, StoredMessage
from rocketlake.base.errors import UsageError
from rocketlake.client import sync
from rocketlake.client.calls.pull import query_messages, view_message
from rocketlake.client.errors import NoRoute, NotRunning
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.standalone import Standalone
from rocketlake.testing.cluster import EmbeddedCluster
from tests.stored import known_queues


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        yield cluster


async def send(namesrv: str, topic: str, count: int) -> list[MessageQueue]:
    """Numbered messages round robin; returns the topic's queues."""
    async with Producer("senders", namesrv=namesrv) as producer:
        for n in range(count):
            await producer.send(Message(topic, str(n).encode(), tags="AB"[n % 2]))
        return list(await producer.queues(topic))


async def poll_all(consumer: PullConsumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [int(message.body) for message in await consumer.poll(timeout_ms=1000)]
    return found


async def test_assigned_queues_are_read_sought_and_committed(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send(namesrv, "Pulled", 40)
    async with PullConsumer("pulling", namesrv=namesrv, auto_commit=False) as consumer:
        queues = await known_queues(consumer, "Pulled")
        consumer.assign(queues)
        await consumer.seek_to_begin()
        assert sorted(await poll_all(consumer, 40)) == list(range(40))
        assert await consumer.poll(timeout_ms=50) == []
        assert [await consumer.position(queue) for queue in queues] == [10] * 4
        assert [await consumer.committed(queue) for queue in queues[:1]] != [10]

        await consumer.seek(queues[0], 4)
        again = await poll_all(consumer, 6)
        assert len(again) == 6
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in queues] == [10] * 4
        await consumer.commit({queues[0]: 3})
        assert await consumer.committed(queues[0]) == 3

        await consumer.seek_to_end()
        assert await consumer.poll(timeout_ms=50) == []
        begin, end = await consumer.begin_offset(queues[0]), await consumer.end_offset(queues[0])
        assert (begin, end) == (0, 10)
        with pytest.raises(UsageError, match="0 to 10"):
            await consumer.seek(queues[0], 11)


async def test_a_subscription_is_shared_and_committed_by_itself(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    await send(namesrv, "Pulled", 40)
    first = PullConsumer("sharing", namesrv=namesrv, from_where="first")
    first.subscribe("Pulled", "A")
    async with first:
        assert sorted(await poll_all(first, 20)) == list(range(0, 40, 2))
    second = PullConsumer("sharing", namesrv=namesrv, from_where="first")
    second.subscribe("Pulled", "A")
    async with second, Producer("senders", namesrv=namesrv) as producer:
        await producer.send(Message("Pulled", b"99", tags="A"))
        assert await poll_all(second, 1) == [99]


async def test_an_error_in_the_block_leaves_the_last_poll_uncommitted(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    queue = (await send(namesrv, "Pulled", 4))[0]

    async def read(fail: bool) -> list[bytes]:
        async with PullConsumer("careful", namesrv=namesrv, from_where="first") as consumer:
            consumer.assign([queue])
            bodies = [message.body for message in await consumer.poll(timeout_ms=20_000)]
            if fail:
                raise ZeroDivisionError
            return bodies

    with pytest.raises(ZeroDivisionError):
        await read(fail=True)
    assert len(await read(fail=False)) == 1


async def test_paused_queues_hand_out_nothing(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    queues = await send(namesrv, "Pulled", 40)
    async with PullConsumer("pausing", namesrv=namesrv, from_where="first") as consumer:
        consumer.assign(queues[:2])
        consumer.pause(queues[:1])
        found = await poll_all(consumer, 10)
        assert await consumer.poll(timeout_ms=50) == []
        consumer.resume(queues[:1])
        found += await poll_all(consumer, 10)
        assert len(set(found)) == 20


async def test_offsets_by_time(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    queues = await send(namesrv, "Pulled", 8)
    async with PullConsumer("timing", namesrv=namesrv) as consumer:
        assert set((await consumer.offsets_for_time(queues, 0)).values()) == {0}


async def test_errors_of_the_pull_consumer_say_what_to_do(cluster: Standalone) -> None:
    consumer = PullConsumer("errors", namesrv=cluster.namesrv_address)
    with pytest.raises(NotRunning):
        await consumer.poll()
    async with consumer:
        with pytest.raises(NoRoute, match="topic create Missing"):
            await consumer.fetch_queues("Missing")
        with pytest.raises(UsageError, match="not read by this consumer"):
            await consumer.seek(MessageQueue("Missing", "broker-a", 0), 0)
        consumer.assign([])
        with pytest.raises(UsageError, match="subscribe"):
            consumer.subscribe("Missing")


async def test_large_bodies_batches_and_ids_come_back_as_sent(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("senders", namesrv=namesrv, config=ProducerConfig(batch_bytes_max=2000)) as producer:
        big = b"0123456789" * 10_000
        sent = await producer.send(Message("Round", big, tags="T", keys=["k1", "k2"], properties={"own": "ü"}))
        batch = await producer.send_batch([Message("Round", b"%d" % n * 30) for n in range(100)])
        await producer.send_oneway(Message("Round", b"last"))
        net, address = producer.instance.net, cluster.broker_address
        _, _, offset = parse_offset_message_id(sent.offset_message_id)
        viewed = await view_message(net, address, offset)
        assert (viewed.body, viewed.tags, viewed.key_list) == (big, "T", ["k1", "k2"])
        assert viewed.properties["own"] == "ü"
        assert viewed.message_id == sent.message_id
        found = await query_messages(net, address, "Round", "k2")
        assert [message.message_id for message in found] == [sent.message_id]
        by_id = await query_messages(net, address, "Round", batch[7].message_id, unique=True)
        assert [message.body for message in by_id] == [b"7" * 30]
        assert await query_messages(net, address, "Round", "nobody") == []
    async with PullConsumer("round", namesrv=namesrv, from_where="first") as consumer:
        consumer.assign(await known_queues(consumer, "Round"))
        bodies: list[bytes] = []
        async with asyncio.timeout(30):
            while len(bodies) < 102:
                bodies += [message.body for message in await consumer.poll(timeout_ms=1000)]
    assert sorted(bodies) == sorted([big, b"last", *(b"%d" % n * 30 for n in range(100))])


def test_the_blocking_twin_sends_consumes_and_ends_its_thread(embedded: EmbeddedCluster) -> None:
    namesrv = embedded.namesrv
    with sync.Producer("senders", namesrv=namesrv) as producer:
        results = [producer.send(Message("Blocking", str(n).encode()), key=n) for n in range(50)]
        producer.send_batch([Message("Blocking", str(n).encode()) for n in range(50, 60)])
        background: list[object] = []
        producer.send_nowait(Message("Blocking", b"60"), lambda result, error: background.append(result or error))
        producer.flush()
        producer.send_oneway(Message("Blocking", b"61"))
        assert len({result.message_id for result in results}) == 50
        assert len(background) == 1

    with sync.Consumer("twins", "Blocking", namesrv=namesrv, from_where="first") as consumer:
        seen = set()
        for message in consumer:
            seen.add(int(message.body))
            if len(seen) == 62:
                break
    assert seen == set(range(62))

    pushed: set[bytes] = set()
    done = threading.Event()

    def listener(messages: list[StoredMessage]) -> None:
        pushed.update(message.body for message in messages)
        if len(pushed) == 62:
            done.set()

    config = ConsumerConfig(batch_size=8)
    push = sync.PushConsumer("pushed", namesrv=namesrv, listener=listener, from_where="first", config=config)
    push.subscribe("Blocking")
    with push:
        assert done.wait(30)
        assert push.assignment

    with sync.PullConsumer("pulled", namesrv=namesrv, from_where="first") as pull:
        queues = pull.fetch_queues("Blocking")
        pull.assign(queues)
        found: set[bytes] = set()
        while len(found) < 62:
            found.update(message.body for message in pull.poll(timeout_ms=1000))
        pull.commit()
        assert sum(pull.committed(queue) for queue in queues) == 62
        pull.seek_to_begin(queues[0])
        assert pull.position(queues[0]) == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "rocketlake-client"]


def test_the_blocking_twin_says_when_it_is_not_running() -> None:
    producer = sync.Producer("senders", namesrv="127.0.0.1:1")
    with pytest.raises(UsageError, match="not running"):
        producer.send(Message("T", b"x"))


def test_a_client_made_before_fork_says_so(embedded: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with sync.Producer("senders", namesrv=embedded.namesrv) as producer:
        producer.send(Message("Forked", b"x"))
        with monkeypatch.context() as child:
            child.setattr("os.getpid", lambda: 1)
            with pytest.raises(UsageError, match=r"fork\(\)"):
                producer.send(Message("Forked", b"x"))


def test_a_start_that_fails_leaves_no_thread_behind() -> None:
    consumer = sync.Consumer("twins", "Blocking", namesrv="127.0.0.1:1")
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        consumer.start()
    assert not [thread for thread in threading.enumerate() if thread.name == "rocketlake-client"]
