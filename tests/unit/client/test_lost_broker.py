"""The only broker restarts: sends wait for its link, and for a route, within their time and in their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.config import ClientConfig, ProducerConfig
from rocketlake.client.errors import NoRoute, SendFailed
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue

LIMIT_MS = 3000


@pytest.fixture
async def start(peers: Any, clock: ManualClock) -> Any:
    started: list[Producer] = []

    async def make(**settings: Any) -> Producer:
        config = ClientConfig(namesrv="ns:9876", client_ip="10.0.0.1")
        instance = ClientInstance(config, clock=clock, network=peers.net.host("client"))
        peers.instances.append(instance)
        await instance.start()
        producer = Producer("g", instance=instance, config=ProducerConfig(send_timeout_ms=LIMIT_MS, **settings))
        await producer.start()
        started.append(producer)
        return producer

    yield make
    for producer in started:
        await producer.stop()


@pytest.mark.parametrize("queue", [None, MessageQueue("T", "a", 1)])
@pytest.mark.parametrize("down_ms", [100, 1600, 2400])
async def test_sends_wait_for_the_broker_within_their_time(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock, queue: MessageQueue | None, down_ms: int
) -> None:
    peers.route("T", await make_broker("a"))
    producer = await start()
    await producer.send(Message("T", b"before"))
    await peers.kill("a")
    sends = [asyncio.create_task(producer.send(Message("T", b"%d" % number), queue=queue)) for number in range(20)]
    await clock.run_for(down_ms)
    assert not any(send.done() for send in sends)
    back = await make_broker("a")
    await clock.run_for(LIMIT_MS - down_ms)
    assert {send.result().status for send in sends if send.done()} == {SendStatus.OK}
    bodies = [body for _, body in back.sent]
    assert sorted(bodies) == sorted(b"%d" % number for number in range(20))
    if queue is not None:
        assert bodies == [b"%d" % number for number in range(20)]


async def test_a_broker_that_comes_back_at_another_address_is_found(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock
) -> None:
    peers.group("T", "g", await make_broker("old"))
    producer = await start()
    await producer.send(Message("T", b"before"))
    await peers.kill("old")
    del peers.routes["T"]
    send = asyncio.create_task(producer.send(Message("T", b"x")))
    await clock.run_for(2000)
    peers.group("T", "g", new := await make_broker("new"))
    await clock.run_for(500)
    assert (send.done(), [body for _, body in new.sent]) == (True, [b"x"])


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_first_send_waits_for_a_route(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock, key: str | None
) -> None:
    """The producer starts beside the broker: no name server knows it yet."""
    producer = await start()
    sends = []
    for number in range(20):
        sends.append(asyncio.create_task(producer.send(Message("T", b"%d" % number), key=key)))
        await clock.run_for(100)
    assert not any(send.done() for send in sends)
    peers.route("T", a := await make_broker("a"))
    await clock.run_for(300)
    assert {send.result().status for send in sends if send.done()} == {SendStatus.OK}
    assert [body for _, body in a.sent] == [b"%d" % number for number in range(20)]


async def test_when_the_time_is_up_the_error_says_what_is_missing(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock
) -> None:
    producer = await start()
    unknown = asyncio.create_task(producer.send(Message("T", b"x")))
    await clock.run_for(LIMIT_MS)
    with pytest.raises(NoRoute, match="topic create T"):
        await unknown
    peers.route("T", await make_broker("a"), await make_broker("b"))
    await producer.send(Message("T", b"x"))
    await peers.kill("a")
    await peers.kill("b")
    lost = asyncio.create_task(producer.send(Message("T", b"x")))
    await clock.run_for(LIMIT_MS)
    with pytest.raises(SendFailed, match=f"within {LIMIT_MS} ms") as failed:
        await lost
    assert sorted(broker for broker, _ in failed.value.attempts) == ["a", "b"]


async def test_without_retries_a_send_is_tried_once(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock
) -> None:
    peers.route("T", await make_broker("a"))
    producer = await start(retries=0)
    await producer.send(Message("T", b"x"))
    await peers.kill("a")
    with pytest.raises(SendFailed):
        await producer.send(Message("T", b"x"))
