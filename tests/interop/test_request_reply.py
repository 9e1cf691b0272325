"""Request and reply between both worlds: each side asks and answers, on our broker and on Apache's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from interop.apache import apache_cluster, run_driver
from rocketlake import Message, Producer, PushConsumer, StoredMessage
from rocketlake.model import property_names as names
from tests.interop.releases import jars_of

pytestmark = pytest.mark.interop

COUNT = 50
CLIENTS = ["server550", "client49"]


@pytest.fixture(scope="module")
def apache_namesrv(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of Apache's cluster, release 5.5.0."""
    jars_of("server550")
    with apache_cluster(tmp_path_factory.mktemp("apache550"), peer="server550") as cluster:
        yield cluster.namesrv


def make_topic(topic: str, namesrv: str) -> str:
    """The topic is there before the first request: the consumer finds its route at once."""
    command = [sys.executable, "-m", "rocketlake", "topic", "create", topic, "-n", namesrv]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return topic


async def ask(topic: str, namesrv: str, *, body: str = "question {}") -> None:
    """Ask all questions at once; each answer is that to its question."""
    questions = [body.replace("{}", str(number)).encode() for number in range(COUNT)]
    async with Producer("ours_ask", namesrv=namesrv) as producer:
        calls = [producer.request(Message(topic, each), timeout_ms=60_000) for each in questions]
        answers = await asyncio.gather(*calls)
    assert [answer.body for answer in answers] == [b"re: " + each for each in questions]
    assert all(names.ARRIVE_TIME in answer.properties for answer in answers)


@asynccontextmanager
async def answering(topic: str, namesrv: str) -> AsyncIterator[None]:
    async def answer(request: StoredMessage) -> bytes:
        return b"re: " + request.body

    async with Producer("ours_answer", namesrv=namesrv) as producer:
        listener = producer.replier(answer)
        consumer = PushConsumer(f"answers_{topic}", listener=listener, namesrv=namesrv, from_where="first")
        consumer.subscribe(topic)
        async with consumer:
            yield


async def java_asks_us(topic: str, namesrv: str, peer: str) -> None:
    make_topic(topic, namesrv)
    async with answering(topic, namesrv):
        asked = await asyncio.to_thread(run_driver, "Request", "ask", namesrv, topic, COUNT, 60_000, peer=peer)
    assert asked == {"right": COUNT, "wrong": 0, "none": 0}


async def we_ask_java(topic: str, namesrv: str, peer: str) -> None:
    make_topic(topic, namesrv)
    java = asyncio.create_task(asyncio.to_thread(run_driver, "Request", "answer", namesrv, topic, COUNT, 90, peer=peer))
    await ask(topic, namesrv)
    assert await java == {"answered": COUNT, "failed": 0}


@pytest.mark.parametrize("peer", CLIENTS)
def test_java_asks_and_java_answers_on_our_broker(our_namesrv: str, peer: str) -> None:
    topic = make_topic(f"Asked_{peer}", our_namesrv)
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(run_driver, "Request", "answer", our_namesrv, topic, COUNT, 90, peer=peer)
        asked = run_driver("Request", "ask", our_namesrv, topic, COUNT, 60_000, peer=peer)
        assert asked == {"right": COUNT, "wrong": 0, "none": 0}
        assert answers.result() == {"answered": COUNT, "failed": 0}


@pytest.mark.parametrize("peer", CLIENTS)
async def test_java_asks_and_we_answer_on_our_broker(our_namesrv: str, peer: str) -> None:
    await java_asks_us(f"WeAnswer_{peer}", our_namesrv, peer)


@pytest.mark.parametrize("peer", CLIENTS)
async def test_we_ask_and_java_answers_on_our_broker(our_namesrv: str, peer: str) -> None:
    await we_ask_java(f"WeAsk_{peer}", our_namesrv, peer)


async def test_we_ask_and_answer_on_apaches_broker(apache_namesrv: str) -> None:
    """Bodies of 12 KB are compressed, and compressible ones come back compressed."""
    topic = make_topic("OursBoth", apache_namesrv)
    async with answering(topic, apache_namesrv):
        await ask(topic, apache_namesrv)
        await ask(topic, apache_namesrv, body="question {} " * 1000)


async def test_java_asks_and_we_answer_on_apaches_broker(apache_namesrv: str) -> None:
    await java_asks_us("WeAnswerThere", apache_namesrv, "server550")


async def test_we_ask_and_java_answers_on_apaches_broker(apache_namesrv: str) -> None:
    await we_ask_java("WeAskThere", apache_namesrv, "server550")
