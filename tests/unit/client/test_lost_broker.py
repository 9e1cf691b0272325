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
from rocketlake.model.property_names import TRANSACTION_PREPARED
from rocketlake.net.request import HELD

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


@pytest.mark.parametrize(("settings", "ms"), [({}, 1000), ({"attempt_timeout_ms": 700}, 700)])
async def test_a_silent_broker_costs_a_share_of_the_time(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock, settings: dict[str, int], ms: int
) -> None:
    silent, other = await make_broker("a"), await make_broker("b")
    peers.route("T", silent, other)
    silent.answer_send = lambda request: HELD
    producer = await start(**settings)
    sends = [asyncio.create_task(producer.send(Message("T", b"%d" % number))) for number in range(4)]
    await clock.run_for(ms - 50)
    assert sum(send.done() for send in sends) == 2
    await clock.run_for(100)
    assert [send.result().status for send in sends] == [SendStatus.OK] * 4
    assert sorted(body for _, body in other.sent) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("settings", "brokers", "message", "queue"),
    [
        ({"attempt_timeout_ms": -1}, 2, Message("T", b"x"), None),
        ({}, 1, Message("T", b"x"), None),
        ({}, 2, Message("T", b"x"), MessageQueue("T", "a", 0)),
        ({}, 2, Message.with_properties("T", b"half", {TRANSACTION_PREPARED: "true"}), None),
    ],
)
async def test_an_attempt_has_all_the_time(
    peers: Any, make_broker: Any, start: Any, clock: ManualClock, settings: dict[str, int], brokers: int,
    message: Message, queue: MessageQueue | None,
) -> None:  # fmt: skip
    """As the setting says; with nowhere else to go; with a queue of its own; a half message would be two of them."""
    silent = [await make_broker(name) for name in "ab"[:brokers]]
    peers.route("T", *silent)
    for broker in silent:
        broker.answer_send = lambda request: HELD
    producer = await start(**settings)
    send = asyncio.create_task(producer.send(message, queue=queue))
    await clock.run_for(LIMIT_MS - 100)
    assert sum(len(broker.sent) for broker in silent) == 1
    await clock.run_for(200)
    with pytest.raises(SendFailed):
        await send
