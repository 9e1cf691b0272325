"""Background batches on our own cluster: results, order of keys, the blocking twin, the example."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketlake import Consumer, Message, Producer, ProducerConfig, PullConsumer, StoredMessage
from rocketlake.client import sync
from rocketlake.client.calls.pull import view_message
from rocketlake.client.hooks import Hooks, SendEvent
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.standalone import Standalone
from tests.stored import known_queues

EXAMPLE = Path(__file__).parents[2] / "examples" / "background_batches.py"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def read_all(namesrv: str, topic: str, count: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    async with PullConsumer("reads", namesrv=namesrv) as consumer:
        consumer.assign(await known_queues(consumer, topic))
        await consumer.seek_to_begin()
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await consumer.poll(timeout_ms=1000)
    return found


async def test_each_send_has_the_place_of_its_own_message(cluster: Standalone) -> None:
    namesrv, requests = cluster.namesrv_address, list[int]()

    def note(event: SendEvent) -> None:
        requests.append(len(event.messages))

    hooks, config = Hooks(after_send=[note]), ProducerConfig(auto_batch=True)
    async with Producer("many", namesrv=namesrv, config=config, hooks=hooks) as producer:
        results = await asyncio.gather(
            *[producer.send(Message("Many", b"%d" % n, tags="t"), timeout_ms=30_000) for n in range(500)]
        )
        producer.send_nowait(Message("Many", b"last"))
    assert len(requests) < 100
    places = {(each.queue.queue_id, each.queue_offset): b"%d" % n for n, each in enumerate(results)}
    stored = await read_all(namesrv, "Many", 501)
    by_place = {(each.queue_id, each.queue_offset): each for each in stored}
    assert {place: by_place[place].body for place in places} == places
    assert [by_place[place].message_id for place in places] == [each.message_id for each in results]
    assert b"last" in {each.body for each in stored}, "leaving the block sends what was accepted"
    async with Producer("asks", namesrv=namesrv) as producer:
        for number in (0, 250, 499):
            host, port, offset = parse_offset_message_id(results[number].offset_message_id)
            seen = await view_message(producer.instance.net, f"{host}:{port}", offset, topic="Many")
            assert seen.body == b"%d" % number


async def test_sends_of_a_key_keep_their_order(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    config = ProducerConfig(auto_batch=True, auto_batch_bytes_max=500)
    async with Producer("ordered", namesrv=namesrv, config=config) as producer:
        sends = [
            producer.send(Message("Ordered", b"%d %d" % (n % 20, n), keys="k" * (n % 7)), key=n % 20)
            for n in range(2000)
        ]
        await asyncio.gather(*sends)
    seen = defaultdict[bytes, list[int]](list)
    for message in await read_all(namesrv, "Ordered", 2000):
        key, number = message.body.split()
        seen[key].append(int(number))
    assert len(seen) == 20
    assert all(numbers == sorted(numbers) for numbers in seen.values())


async def test_threads_share_batches_through_the_blocking_twin(cluster: Standalone) -> None:
    namesrv, requests = cluster.namesrv_address, list[int]()
    hooks = Hooks(after_send=[lambda event: requests.append(len(event.messages))])

    def talk() -> list[str]:
        config = ProducerConfig(auto_batch=True)
        with sync.Producer("threads", namesrv=namesrv, config=config, hooks=hooks) as producer:
            with ThreadPoolExecutor(16) as threads:
                results = list(threads.map(lambda n: producer.send(Message("Threads", b"%d" % n)), range(160)))
            for number in range(160, 200):
                producer.send_nowait(Message("Threads", b"%d" % number))
            producer.flush()
            return [result.message_id for result in results]

    ids = await asyncio.to_thread(talk)
    assert len(set(ids)) == 160
    assert sum(requests) == 200
    assert len(requests) < 200
    async with Consumer("after", "Threads", namesrv=namesrv, from_where="first") as consumer:
        seen = set()
        async with asyncio.timeout(60):
            while len(seen) < 200:
                message = await consumer.receive()
                assert message is not None
                seen.add(int(message.body))
    assert seen == set(range(200))


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    found = re.fullmatch(r"5000 sends, 5000 of them OK, in (\d+) requests\n", printed.decode())
    assert found is not None
    assert int(found[1]) < 2500
