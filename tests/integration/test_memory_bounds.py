"""The memory of a broker process with a thousand connections, and with consumers that ask and never read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Buffer, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import TOPIC, BrokerProcess
from tests.requests import pull_header, send_header

LINKS = 1000
DEAF = 50
"""So many of the links never read."""
PULLS = 300
"""And ask for so many answers of 32 messages each: 2 GB in all."""
MESSAGES = 128
BODY = b"x" * 4096
ANSWER_BYTES = 32 * (len(BODY) + 200)
WRITE_HIGH_BYTES = 1 << 18  # NetLimits.write_high_bytes
LINK_BYTES = 20_000
PULL_BYTES = 2000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    yield broker
    broker.kill()


async def test_memory_is_bounded_and_others_are_served(broker: BrokerProcess) -> None:
    client = NetClient()
    # Two queues by turns, so that an answer is made of pieces that are copied, and not of the log itself.
    for number in range(2 * MESSAGES):
        assert (await client.invoke(broker.address, send(number % 2), 10_000)).code == ResponseCode.SUCCESS
    assert len((await client.invoke(broker.address, pull(0), 10_000)).body_bytes) > 32 * len(BODY)
    before = private_bytes(broker)
    async with contextlib.AsyncExitStack() as open_links:
        links = [connect(broker, open_links) for _ in range(LINKS)]
        for link in links[DEAF:]:
            await served(link)
        with_links = private_bytes(broker)

        assert with_links - before < LINKS * LINK_BYTES
        await asyncio.gather(*(ask_for_all(link) for link in links[:DEAF]))
        peak = 0
        for round_number in range(100):
            answer = await client.invoke(broker.address, pull(round_number % 64), 10_000)
            assert answer.code == ResponseCode.SUCCESS
            await served(links[DEAF + round_number])
            peak = max(peak, private_bytes(broker))

        # What the transport keeps, what the link keeps (each up to an answer above the mark), and the pulls themselves.
        assert peak - with_links < DEAF * (2 * (WRITE_HIGH_BYTES + ANSWER_BYTES) + PULLS * PULL_BYTES)
    await client.close()


def connect(broker: BrokerProcess, open_links: contextlib.AsyncExitStack) -> socket.socket:
    link = socket.socket()
    open_links.callback(link.close)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it is connected: the window stays small
    link.connect(("127.0.0.1", broker.port))
    link.setblocking(False)
    return link


async def served(link: socket.socket) -> None:
    """Pull something and read the answer."""
    loop, machine = asyncio.get_running_loop(), Connection()
    await loop.sock_sendall(link, b"".join(machine.send(pull(0, count=1))))
    while not (answers := machine.receive_data(await loop.sock_recv(link, 65536))):
        pass
    assert answers[0].code == ResponseCode.SUCCESS


async def ask_for_all(link: socket.socket) -> None:
    """Send the pulls, as far as the broker takes them."""
    machine = Connection()
    frames: list[Buffer] = []
    for _ in range(PULLS):
        frames += machine.send(pull(0))
    await asyncio.get_running_loop().sock_sendall(link, b"".join(frames))


def pull(offset: int, count: int = 32) -> Command:
    header = pull_header(TOPIC, offset=offset, max_msg_nums=count)
    return Command.request(Code.PULL_MESSAGE, header)


def send(queue_id: int) -> Command:
    header = send_header(topic=TOPIC, queue_id=queue_id)
    return Command.request(Code.SEND_MESSAGE_V2, header, BODY)


def private_bytes(broker: BrokerProcess) -> int:
    """Memory of the process without mapped files."""
    status = Path(f"/proc/{broker._process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
