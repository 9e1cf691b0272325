"""Plain calls of gRPC against the ordinary way: the same traffic gets the same answers and has the same effects.

Two brokers with a proxy beside each get the same calls; one proxy serves each call the ordinary way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.admin import Admin
from rocketlake.broker.broker import Broker
from rocketlake.codec.record import decode_records
from rocketlake.model.topic import TopicConfig
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.proxy import Proxy
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import SERVICE, GrpcClient
from tests.http2_peer import Peer
from tests.proxy_messages import any_text, messages, own_names, words

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.proxy.services.plain_acks import PlainAcks
from rocketlake.proxy.services.plain_sends import PlainSends

PLAIN = "SendMessage", "AckMessage"
TYPES = {"T": "", "Normal": "NORMAL", "Fifo": "FIFO", "Late": "DELAY"}


class World:
    """One broker with a proxy, and a client of it."""

    def __init__(self, cluster: Standalone, proxy: Proxy, client: GrpcClient, *, is_plain: bool) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.client = client
        self.given_up = 0
        """Plain-looking calls that the ordinary way served, on the side that has both."""
        if not is_plain:
            for name in PLAIN:
                proxy.server.add(SERVICE + name, self.plain(name).ordinary)
        else:
            for name in PLAIN:
                self._count(self.plain(name))

    def plain(self, name: str) -> Any:
        served = self.proxy.server.methods[(SERVICE + name).encode()].serve
        found = served.__self__  # type: ignore[attr-defined]
        assert isinstance(found, PlainSends | PlainAcks)
        return found

    def _count(self, plain: Any) -> None:
        ordinary = plain.ordinary

        def count(call: Any, message: bytes) -> None:
            self.given_up += 1
            ordinary(call, message)

        plain.ordinary = count

    @property
    def broker(self) -> Broker:
        return self.cluster.broker

    async def call(self, name: str, *requests: bytes) -> list[bytes]:
        """The answers to calls that come in one chunk."""
        peer = self.client.peer
        streams = [peer.ask(SERVICE + name, each, *self.client.headers, (b"grpc-timeout", b"30S")) for each in requests]
        return [b"".join((await peer.over(stream)).messages) for stream in streams]

    def stored(self) -> list[object]:
        """All records of the log, without the times and hosts that differ."""
        store = self.broker.store
        found = []
        for file in store.log.list.files:
            data = Path(file.path).read_bytes()[: file.wrote]
            for each in decode_records(data, decompress=False):
                properties = {key: value for key, value in each.properties.items() if key != "__BORNHOST"}
                born = each.born_ms if "BORN_TIMESTAMP" in properties else None
                place = each.topic, each.queue_id, each.queue_offset
                found.append((place, each.body, each.sys_flag, each.flag, each.reconsume_times, born, properties))
        return found


@asynccontextmanager
async def world(folder: Path, *, is_plain: bool) -> AsyncIterator[World]:
    cluster = Standalone(folder, settings={"grpcServerPort": 0, "brokerName": "b"})
    async with WithProxy(cluster, lambda: cluster.broker) as server:
        assert server.proxy is not None
        for name, kind in TYPES.items():
            attributes = {"message.type": kind} if kind else {}
            cluster.broker.topics.put(TopicConfig(name, read_queues=4, write_queues=4, attributes=attributes))
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("Last", queues=4)  # the name server knows those before it, too
        async with await Peer.connect(server.proxy.server.port) as peer:
            found = World(cluster, server.proxy, GrpcClient(peer, "client"), is_plain=is_plain)
            for name in TYPES:
                sent = v2.SystemProperties(message_id="first", message_group="g" if name == "Fifo" else None)
                if name == "Late":
                    sent.delivery_timestamp.seconds = 1
                await found.call("SendMessage", sending(v2.Message(system_properties=sent, body=b"b"), name))
            yield found


def sending(message: Any, topic: str = "T") -> bytes:
    message.topic.name = topic
    return bytes(v2.SendMessageRequest(messages=[message]).SerializeToString())


def usual(number: int, topic: str = "T", **more: Any) -> bytes:
    system = v2.SystemProperties(message_id=f"id{number}", tag="A", keys=["k"], **more)
    return sending(v2.Message(user_properties={"n": str(number)}, system_properties=system, body=b"body"), topic)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[World, World]]:
    async with world(tmp_path / "plain", is_plain=True) as plain, world(tmp_path / "all", is_plain=False) as ordinary:
        plain.given_up = 0
        yield plain, ordinary


printed = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)
shown = printed.map(lambda text: text.strip() or "x")


def taken(message: Any) -> Any:
    """The message without what no topic here takes, and with a body."""
    for name in ("priority", "lite_topic"):
        message.system_properties.ClearField(name)
    message.body = message.body or b"x"
    return message


mostly_plain = messages(shown, shown, shown).map(taken)
drawn = st.one_of(mostly_plain, mostly_plain, messages(words, words, own_names), messages(any_text, words, words))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("examples", [60, pytest.param(1500, marks=pytest.mark.long)])
def test_any_send_has_the_same_answer_and_is_stored_alike(examples: int, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        plain_context, ordinary_context = (
            world(tmp_path / name, is_plain=name == "plain") for name in ("plain", "ordinary")
        )
        pair = [runner.run(context.__aenter__()) for context in (plain_context, ordinary_context)]

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
        @given(drawn, st.sampled_from(["T", "T", "T", "Normal", "Fifo", "Late", "none"]))
        def compare(message: Any, topic: str) -> None:
            request = sending(message, topic)
            answers = [runner.run(each.call("SendMessage", request)) for each in pair]
            assert answers[0] == answers[1]

        compare()
        assert pair[0].stored() == pair[1].stored()
        before = pair[0].given_up
        assert before > len(TYPES), "some sends are not plain"
        for number in range(2):  # the first one may find that the route is no longer fresh
            runner.run(pair[0].call("SendMessage", usual(number)))
        assert pair[0].given_up <= before + 1, "plain sends take the short way"
        for context in (plain_context, ordinary_context):
            runner.run(context.__aexit__(None, None, None))


async def test_sends_of_one_chunk_are_one_run(pair: tuple[World, World]) -> None:
    plain, ordinary = pair
    runs: list[int] = []
    put_run = plain.broker.ground.intake.put_run
    plain.broker.ground.intake.put_run = lambda run, counts: runs.append(len(run)) or put_run(run, counts)  # type: ignore
    requests = [usual(n, "T" if n % 3 else "Normal") for n in range(40)]
    assert await plain.call("SendMessage", *requests) == await ordinary.call("SendMessage", *requests)
    assert runs == [40]
    assert plain.given_up == 0
    assert plain.stored() == ordinary.stored()
    assert plain.broker.stats.put_times == ordinary.broker.stats.put_times


async def test_a_busy_broker_refuses_alike(pair: tuple[World, World]) -> None:
    answers = []
    for each in pair:
        each.broker.refuse_messages("DISK_FULL: the disk is full")
        answers.append(await each.call("SendMessage", usual(1), usual(2)))
        each.broker.take_messages()
        answers[-1] += await each.call("SendMessage", usual(3))
    assert answers[0] == answers[1]
    codes = [v2.SendMessageResponse.FromString(answer).entries[0].status.code for answer in answers[0]]
    assert codes[2] == v2.Code.OK
    assert v2.Code.OK not in codes[:2]


async def test_acknowledgements_of_one_chunk(pair: tuple[World, World]) -> None:
    left = []
    for each in pair:
        await each.call("SendMessage", *[usual(n) for n in range(20)])
        popped: list[Any] = []
        while len(popped) < 21:
            popped += await each.client.receive("T", "g")
        requests = [
            v2.AckMessageRequest(
                group=v2.Resource(name="g"),
                topic=v2.Resource(name="T"),
                entries=[
                    v2.AckMessageEntry(
                        message_id=message.system_properties.message_id,
                        receipt_handle=message.system_properties.receipt_handle,
                    )
                ],
            )
            for message in popped
        ]
        assert [entry.entries[0].receipt_handle for entry in requests] == [
            message.system_properties.receipt_handle for message in popped
        ]
        requests[-1].entries[0].receipt_handle = "nonsense"
        requests[-2].entries[0].receipt_handle = requests[-2].entries[0].receipt_handle.replace(" b ", " other ")
        answers = await each.call("AckMessage", *[request.SerializeToString() for request in requests])
        read = [v2.AckMessageResponse.FromString(answer) for answer in answers]
        assert [answer.status.code for answer in read[:-2]] == [v2.Code.OK] * 19
        assert [answer.entries[0].message_id for answer in read] == [
            message.system_properties.message_id for message in popped
        ]
        in_flight = [each.broker.popping.in_flight.of(("g", "T", queue))[0] for queue in range(4)]
        left.append(([answer.entries[0].status.code for answer in read], sum(in_flight)))
    assert left[0] == left[1]
    assert left[0][1] == 2
    assert pair[0].given_up == 2
