"""What a client says that was stopped: that it was stopped, and that a new one is needed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from rocketlake.client import sync
from rocketlake.client.config import ProducerConfig
from rocketlake.client.consumer.consumer import Consumer
from rocketlake.client.consumer.listener import ConsumeResult
from rocketlake.client.consumer.pull import PullConsumer
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.errors import NotRunning, SendFailed, UsageError
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.net.request import HELD

NOBODY = "127.0.0.1:1"


async def listen(_messages: object) -> ConsumeResult:
    return ConsumeResult.SUCCESS


CLIENTS: dict[str, tuple[Any, Any]] = {
    "Producer": (partial(Producer, "g"), lambda client: client.send(Message("T", b"x"))),
    "PullConsumer": (partial(PullConsumer, "g"), lambda client: client.poll()),
    "Consumer": (partial(Consumer, "g", "T"), lambda client: client.receive()),
    "PushConsumer": (partial(PushConsumer, "g", listener=listen), lambda client: client.start()),
}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_client_that_was_stopped_says_so(peers: Any, make_broker: Any, kind: str) -> None:
    peers.route("T", await make_broker("a"))
    instance = peers.client()
    await instance.start()
    make, use = CLIENTS[kind]
    client = make(instance=instance)
    if kind == "PushConsumer":
        client.subscribe("T")
    await client.start()
    await client.stop()
    await instance.stop()  # as a client does with an instance of its own
    for call in (use, lambda client: client.start()):
        with pytest.raises(NotRunning, match=f"^{kind} of group 'g' was stopped") as refused:
            await call(client)
        assert refused.value.hint == f"make a new {kind}: one that was stopped does not start again"


def test_so_does_a_blocking_one() -> None:
    producer = sync.Producer("g", namesrv=NOBODY)
    producer.start()
    producer.stop()
    with pytest.raises(UsageError, match=r"Producer was stopped.*make a new one"):
        producer.send(Message("T", b"x"))
    with pytest.raises(NotRunning, match="Producer of group 'g' was stopped"):
        producer.start()


@pytest.mark.parametrize("answers", [False, True])
async def test_a_stop_during_the_first_look_up_does_not_blame_the_name_server(peers: Any, answers: bool) -> None:
    """It is silent, or it knows no route yet."""
    instance = peers.client()
    await instance.start()
    if not answers:
        peers.answer_route = lambda request: HELD
    producer, consumer = Producer("g", instance=instance), PullConsumer("h", instance=instance)
    await producer.start()
    await consumer.start()
    sends = [asyncio.create_task(producer.send(Message("T", b"x"), key=key)) for key in (None, "k")]
    if not answers:
        sends.append(asyncio.create_task(consumer.fetch_queues("T")))  # type: ignore[arg-type]
    while not peers.route_questions:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await producer.stop()
    await instance.stop()
    for send in sends:
        with pytest.raises(NotRunning, match=r"(Producer of group 'g'|PullConsumer of group 'h') was stopped"):
            await send
    await consumer.stop()


async def test_a_send_that_a_stop_ends_does_not_blame_the_broker(peers: Any, make_broker: Any) -> None:
    broker = await make_broker("a")
    peers.route("T", broker)
    broker.answer_send = lambda request: HELD
    instance = peers.client()
    await instance.start()
    producer = Producer("g", instance=instance, config=ProducerConfig(send_timeout_ms=60_000))
    await producer.start()
    send = asyncio.create_task(producer.send(Message("T", b"x")))
    while not broker.sent:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await producer.stop()
    await instance.stop()
    with pytest.raises(SendFailed, match="before the client was stopped") as failed:
        await send
    assert failed.value.hint == "call `stop()` behind the last send"
