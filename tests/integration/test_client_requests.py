"""Our producer asks and our consumer answers, on our own cluster over real sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, Message, Producer, PullConsumer, PushConsumer, StoredMessage, reply_to
from rocketlake.client import sync
from rocketlake.model.topic import TopicConfig
from rocketlake.standalone import Standalone

EXAMPLE = Path(__file__).parents[2] / "examples" / "request_reply.py"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def test_each_request_gets_its_own_answer(cluster: Standalone) -> None:
    async def answer(request: StoredMessage) -> bytes:
        return b"re: " + request.body

    namesrv = cluster.namesrv_address
    async with Producer("asks", namesrv=namesrv) as asker, Producer("answers", namesrv=namesrv) as producer:
        consumer = PushConsumer("answers", listener=producer.replier(answer), namesrv=namesrv, from_where="first")
        consumer.subscribe("Asked")
        async with consumer:
            questions = [Message("Asked", b"question %d" % number) for number in range(100)]
            answers = await asyncio.gather(*(asker.request(each, timeout_ms=20_000) for each in questions))
    assert [each.body for each in answers] == [b"re: " + each.body for each in questions]


async def test_a_request_whose_function_fails_comes_again_and_is_answered_then(cluster: Standalone) -> None:
    times: list[int] = []

    async def answer(request: StoredMessage) -> bytes:
        times.append(request.reconsume_times)
        if len(times) == 1:
            raise LookupError("no price yet")
        return b"re: " + request.body

    async with Producer("both", namesrv=cluster.namesrv_address) as producer:
        consumer = PushConsumer(
            "answers",
            listener=producer.replier(answer),
            namesrv=cluster.namesrv_address,
            from_where="first",
            config=ConsumerConfig(retry_delay_level=1),
        )
        consumer.subscribe("Asked")
        async with consumer:
            assert (await producer.request(Message("Asked", b"?"), timeout_ms=60_000)).body == b"re: ?"
    assert times == [0, 1]


async def test_a_consumer_that_polls_answers_with_any_producer(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    cluster.broker.topics.put(TopicConfig("Polled", read_queues=1, write_queues=1))
    await cluster.broker.cluster.registration.register()
    async with Producer("asks", namesrv=namesrv) as asker, Producer("answers", namesrv=namesrv) as producer:
        question = asyncio.create_task(asker.request(Message("Polled", b"?" * 9000), timeout_ms=20_000))
        async with PullConsumer("answers", namesrv=namesrv) as consumer:
            consumer.assign(await consumer.fetch_queues("Polled"))
            await consumer.seek_to_begin(*consumer.assignment)
            while not question.done():
                for request in await consumer.poll(timeout_ms=100):
                    await producer.send(reply_to(request, Message("", request.body * 2, keys="k")))
        answer = await question
    assert (answer.body, answer.keys) == (b"?" * 18_000, "k")


async def test_the_blocking_twin(cluster: Standalone) -> None:
    def talk() -> bytes:
        namesrv = cluster.namesrv_address
        with sync.Producer("both", namesrv=namesrv) as producer:
            listener = producer.replier(lambda request: b"re: " + request.body, threads=1)
            consumer = sync.PushConsumer("answers", listener=listener, namesrv=namesrv, from_where="first")
            consumer.subscribe("Blocking")
            with consumer:
                return producer.request(Message("Blocking", b"?"), timeout_ms=20_000).body

    assert await asyncio.to_thread(talk) == b"re: ?"


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode().splitlines() == ["apple: 0.35", "pear: 0.52", "plum: not sold"]
