"""Malformed requests to a real broker process: it answers or closes the link, serves on, loses nothing."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import BrokerProcess, Ledger, Reader
from tests.requests import send_header

MIB = 1 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("bad-input"))
    process.start()
    yield process
    assert process.stop() == 0


@pytest.fixture
async def net() -> AsyncIterator[NetClient]:
    client = NetClient(clock=SystemClock())
    yield client
    await client.close()


def send_request(topic: str = "BenchmarkTest", body: bytes = b"good", **fields: Any) -> Command:
    return Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic, **fields), body)


async def still_serves(broker: BrokerProcess, net: NetClient) -> None:
    answer = await net.invoke(broker.address, send_request(), 5000)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def closed_by_peer(broker: BrokerProcess, data: bytes) -> bytes:
    """Everything the broker says to these bytes before it closes the link."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    try:
        writer.write(data)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADER = b'{"code":34,"flag":0,"language":"JAVA","opaque":1,"version":479}'


@pytest.mark.parametrize(
    "data",
    [
        HTTP,
        struct.pack(">ii", 17 * MIB, 10),
        struct.pack(">ii", -1, 0),
        struct.pack(">ii", 2, 0),
        struct.pack(">ii", 100, 200) + b"x" * 100,
        struct.pack(">iB3s", 20, 9, b"\0\0\x10") + b"x" * 20,
        struct.pack(">ii", 4 + len(HEADER), len(HEADER)) + HEADER[:-1] + b"]",
        struct.pack(">ii", 4 + 200_000, 200_000) + b'{"code":' + b"[" * 199_992,
        struct.pack(">iB3s", 4 + 21, 1, b"\0\0\x15") + struct.pack(">hbhiiii", 34, 0, 0, 1, 0, 0, 2**31 - 1),
    ],
    ids=["http", "17 MiB", "negative", "short", "header beyond frame", "codec 9", "broken json", "deep json", "lying"],
)
async def test_bytes_that_are_no_frame_close_the_link_and_nothing_else(
    broker: BrokerProcess, net: NetClient, data: bytes
) -> None:
    await still_serves(broker, net)
    await closed_by_peer(broker, data)
    await still_serves(broker, net)


async def test_random_bytes(broker: BrokerProcess, net: NetClient) -> None:
    noise = random.Random(7)
    for _ in range(30):
        start = struct.pack(">ii", noise.randrange(4, 3000), noise.randrange(0, 3000)) if noise.random() < 0.7 else b""
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(start + noise.randbytes(noise.randrange(1, 4000)))
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
    await still_serves(broker, net)


@pytest.mark.parametrize("code", [0, 9, 99, 1234, 32767, 200_056, -5])
async def test_an_unknown_code_is_answered_and_the_link_stays(broker: BrokerProcess, net: NetClient, code: int) -> None:
    answer = await net.invoke(broker.address, Command.request(code), 5000)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert str(code) in (answer.remark or "")
    await still_serves(broker, net)


@pytest.mark.parametrize(
    "topic", ["../../etc/passwd", "a/b", "..", "", "a" * 128, "tab\tname", "nul\0name", "%RETRY%" + "g" * 300, "名前"]
)
async def test_a_name_that_is_no_topic_is_refused(broker: BrokerProcess, net: NetClient, topic: str) -> None:
    answer = await net.invoke(broker.address, send_request(topic), 5000)
    assert answer.code != ResponseCode.SUCCESS
    assert answer.remark
    await still_serves(broker, net)
    strangers = [path for path in broker.root.rglob("*") if "passwd" in path.name or path.name in ("b", "..")]
    assert strangers == []


async def test_sizes_have_limits(broker: BrokerProcess, net: NetClient) -> None:
    answer = await net.invoke(broker.address, send_request(body=b"x" * (4 * MIB + 1)), 10_000)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    answer = await net.invoke(broker.address, send_request(properties="K\x01" + "v" * 40_000 + "\x02"), 10_000)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    answer = await net.invoke(broker.address, send_request(queue_id=1024), 5000)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    answer = await net.invoke(broker.address, Command.request(RequestCode.SEND_MESSAGE_V2, body=b"x"), 5000)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    await still_serves(broker, net)


async def test_nothing_is_lost_while_strangers_shout(broker: BrokerProcess, net: NetClient) -> None:
    """Good messages before, between and after the noise are all there, in order."""
    ledger = Ledger()
    noise = random.Random(11)
    topic_queue = 3
    for number in range(60):
        identity = f"kept-{number}"
        ledger.tried.add(identity)
        answer = await net.invoke(
            broker.address, send_request(body=identity.encode(), queue_id=topic_queue, default_topic_queue_nums=4), 5000
        )
        assert answer.code == ResponseCode.SUCCESS
        ledger.acked[identity] = (topic_queue, number)
        if number % 10 == 0:
            await closed_by_peer(broker, struct.pack(">ii", 50, 60) + noise.randbytes(50))
    ledger.tried.add("good")
    reader = Reader(broker.address, ledger)
    reader.queues = [topic_queue]
    await reader.read_new()
    assert reader.lost() == []
