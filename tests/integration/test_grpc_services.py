"""The gRPC services beside a broker, by calls that are made by hand: what official clients do not show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketlake.admin import Admin
from rocketlake.base.clock import Millis, SystemClock
from rocketlake.proxy import beside
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.http2.framing import GrpcStatus
from rocketlake.proxy.proxy import Proxy
from rocketlake.proxy.services.clients import TOPICS_MAX
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import client_of, until

SETTINGS = {"grpcServerPort": 0}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Standalone, Proxy]]:
    cluster = Standalone(tmp_path / "cluster", settings=SETTINGS)
    async with WithProxy(cluster, lambda: cluster.broker) as server:
        assert server.proxy is not None
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("T", queues=4)
        yield cluster, server.proxy


async def test_a_message_makes_its_way_and_is_gone_when_it_is_acknowledged(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        sent = await client.send("T", b"one", tag="A", keys=["k"])
        assert (sent.status.code, sent.entries[0].message_id) == (v2.Code.OK, "id of one")
        (message,) = await client.receive("T", "g")
        system = message.system_properties
        assert (message.body, system.tag, list(system.keys), system.delivery_attempt) == (b"one", "A", ["k"], 1)
        assert (await client.ack("T", "g", message)).status.code == v2.Code.OK
        await client.send("T", b"two")
        assert [each.body for each in await client.receive("T", "g")] == [b"two"]


class _LateClock(SystemClock):
    """The clock of a machine that is a minute behind."""

    def now_ms(self) -> Millis:
        return super().now_ms() - 60_000


async def test_a_proxy_whose_clock_is_behind_that_of_its_broker_hands_out(
    both: tuple[Standalone, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker takes a pop for given up whose time, by its own clock, is over."""
    monkeypatch.setattr(beside, "Proxy", partial(Proxy, clock=_LateClock()))
    proxy = beside.proxy_beside(both[0].broker)
    async with proxy, client_of(proxy) as client:
        waiting = await client.begin("ReceiveMessage", client.receiving("T", "g"))
        await client.send("T", b"one")
        _, message, _ = await client.end("ReceiveMessage", waiting)
        assert message.message.body == b"one"


async def test_a_receive_that_was_given_up_takes_no_message(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        given_up = await client.begin("ReceiveMessage", client.receiving("T", "g"))
        stays = await client.begin("ReceiveMessage", client.receiving("T", "g"))
        await until(lambda: any(len(line.waiting) == 2 for line in _lines(both[1])))
        client.peer.h2.reset_stream(given_up)
        await client.peer.flush()
        await until(lambda: all(len(line.waiting) == 1 for line in _lines(both[1])))
        await client.send("T", b"one")
        _, message, _ = await client.end("ReceiveMessage", stays)
        assert (message.message.body, message.message.system_properties.delivery_attempt) == (b"one", 1)


def _lines(proxy: Proxy) -> list[Any]:
    return list(proxy.receives.lines.lines.values())


async def test_each_of_many_that_wait_gets_its_message(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        waiting = [await client.begin("ReceiveMessage", client.receiving("T", "g")) for _ in range(8)]
        await until(lambda: any(len(line.waiting) == 8 for line in _lines(both[1])))
        for number in range(8):
            await client.send("T", b"%d" % number)
            await until(lambda number=number: sum(len(line.waiting) for line in _lines(both[1])) <= 7 - number)
        bodies = [each.message.body for stream in waiting for each in await client.end("ReceiveMessage", stream)]
        assert sorted(filter(None, bodies)) == [b"%d" % number for number in range(8)]


async def test_a_stop_answers_receives_that_wait(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        await client.begin("ReceiveMessage", client.receiving("T", "g"))
        await until(lambda: any(line.waiting for line in _lines(both[1])))
        stopping = asyncio.create_task(both[1].stop())
        data = bytearray()
        while chunk := await client.peer.reader.read(65536):
            data += chunk
        await stopping
        assert v2.ReceiveMessageResponse(
            status=v2.Status(code=v2.Code.MESSAGE_NOT_FOUND, message="no new message")
        ).SerializeToString() in bytes(data)


async def test_a_renewed_message_is_acknowledged_by_the_receipt_that_its_client_has(
    both: tuple[Standalone, Proxy],
) -> None:
    _, proxy = both
    async with client_of(proxy) as client:
        await _tell_settings(client, "g")
        await client.send("T", b"one")
        responses = await client.end(
            "ReceiveMessage", await client.begin("ReceiveMessage", client.receiving("T", "g", auto_renew=True))
        )
        message = responses[1].message
        text = message.system_properties.receipt_handle
        before = proxy.renewals.receipt(text)
        await proxy.renewals.renew(text)
        assert proxy.renewals.receipt(text).expires_ms > before.expires_ms
        assert (await client.ack("T", "g", message)).status.code == v2.Code.OK
        assert text not in proxy.renewals


async def _tell_settings(client: Any, group: str) -> None:
    subscription = v2.Subscription(
        group=v2.Resource(name=group), subscriptions=[v2.SubscriptionEntry(topic=v2.Resource(name="T"))]
    )
    settings = v2.Settings(client_type=v2.ClientType.PUSH_CONSUMER, subscription=subscription)
    stream = client.peer.begin("/apache.rocketmq.v2.MessagingService/Telemetry", *client.headers)
    client.peer.send(stream, v2.TelemetryCommand(settings=settings).SerializeToString())
    while not client.peer.answers[stream].messages:
        assert await client.peer.read()
    told = v2.TelemetryCommand.FromString(client.peer.answers[stream].messages[0])
    assert told.status.code == v2.Code.OK
    assert told.settings.HasField("metric"), "without it Apache's Python consumer does not start"


async def test_a_client_names_no_more_topics_than_it_may(both: tuple[Standalone, Proxy]) -> None:
    """Of each topic of a producer the brokers are asked, again and again."""
    async with client_of(both[1]) as client:
        topics = [v2.Resource(name=f"T{number}") for number in range(TOPICS_MAX + 1)]
        settings = v2.Settings(client_type=v2.ClientType.PRODUCER, publishing=v2.Publishing(topics=topics))
        stream = client.peer.begin("/apache.rocketmq.v2.MessagingService/Telemetry", *client.headers)
        client.peer.send(stream, v2.TelemetryCommand(settings=settings).SerializeToString())
        answer = await client.peer.over(stream)
        assert answer.status == GrpcStatus.INVALID_ARGUMENT
        assert str(TOPICS_MAX) in answer.text
        assert not both[1].clients.known


async def test_what_cannot_be_done_says_why(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        refused = (await client.send("None")).status
        assert (refused.code, "`rocketlake topic create None`" in refused.message) == (v2.Code.TOPIC_NOT_FOUND, True)
        assert (await client.send("T", b"")).status.code == v2.Code.MESSAGE_BODY_EMPTY
        (refused,) = await client.end(
            "ReceiveMessage", await client.begin("ReceiveMessage", client.receiving("T", "g", 5), b"1S")
        )
        assert refused.status.code == v2.Code.ILLEGAL_POLLING_TIME
        no_receipt = v2.Message(system_properties=v2.SystemProperties(message_id="m", receipt_handle="nonsense"))
        assert (await client.ack("T", "g", no_receipt)).entries[0].status.code == v2.Code.INVALID_RECEIPT_HANDLE
        heartbeat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=v2.ClientType.SIMPLE_CONSUMER)
        assert (await client.call("Heartbeat", heartbeat)).status.code == v2.Code.UNRECOGNIZED_CLIENT_TYPE
    async with client_of(both[1], "") as nobody:
        assert (await nobody.send("T")).status.code == v2.Code.CLIENT_ID_REQUIRED


async def test_a_call_whose_time_is_over_before_it_is_served_ends_so(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        stream = await client.begin("Heartbeat", v2.HeartbeatRequest(), deadline=b"1n")
        assert (await client.peer.over(stream)).status == GrpcStatus.DEADLINE_EXCEEDED


async def test_sends_of_one_chunk_are_answered_each_with_its_own(both: tuple[Standalone, Proxy]) -> None:
    async with client_of(both[1]) as client:
        await client.send("T", b"first")  # from here on the proxy knows the route
        name = "/apache.rocketmq.v2.MessagingService/SendMessage"
        streams = [
            client.peer.ask(name, client.sending("T", b"%d" % n).SerializeToString(), *client.headers)
            for n in range(64)
        ]
        answers = [(await client.end("SendMessage", stream))[0] for stream in streams]
        assert [answer.status.code for answer in answers] == [v2.Code.OK] * 64
        assert [answer.entries[0].message_id for answer in answers] == [f"id of {n}" for n in range(64)]
        received: set[bytes] = set()
        while len(received) < 65:
            received |= {message.body for message in await client.receive("T", "g")}
        assert received == {b"first", *(b"%d" % n for n in range(64))}


async def test_a_send_whose_broker_is_gone_is_refused_and_not_lost_from_sight(both: tuple[Standalone, Proxy]) -> None:
    cluster, proxy = both
    async with client_of(proxy) as client:
        await client.send("T", b"first")
        await cluster.broker.stop()
        answer = await client.send("T", b"second")
        assert answer.status.code in (v2.Code.INTERNAL_SERVER_ERROR, v2.Code.FORBIDDEN, v2.Code.TOPIC_NOT_FOUND)
        assert answer.status.message


async def test_a_damaged_message_becomes_a_dead_letter_and_the_others_come(
    both: tuple[Standalone, Proxy], tmp_path: Path
) -> None:
    cluster, proxy = both
    async with client_of(proxy) as client:
        for body in (b"good one", b"that rots", b"good two"):
            await client.send("T", body, message_group="one queue")
        log = min((tmp_path / "cluster" / "store" / "commitlog").iterdir())
        with log.open("r+b") as file:
            file.seek(file.read(1 << 20).index(b"that rots"))
            file.write(b"This")
        received: list[bytes] = []
        while len(received) < 2:
            received += [message.body for message in await client.receive("T", "g")]
        assert received == [b"good one", b"good two"]
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            async with asyncio.timeout(20):
                while "%DLQ%g" not in await admin.topics(everything=True):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert "%DLQ%g" in await admin.topics(everything=True)
