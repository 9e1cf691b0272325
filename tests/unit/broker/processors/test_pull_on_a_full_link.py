from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.limits import NetLimits
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage
from tests.requests import pull_header

PULLS = 40
BODY = b"x" * 60_000


class Peer(asyncio.Protocol):
    """Writes pulls, reads when it is told to."""

    def __init__(self) -> None:
        self.machine = Connection()
        self.answers: list[Command] = []
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.answers += self.machine.receive_data(data)


def held_pull() -> Command:
    header = pull_header(wait_ms=10_000)
    return Command.request(RequestCode.PULL_MESSAGE, header)


async def test_held_pulls_of_a_peer_that_does_not_read_are_told_that_there_is_nothing() -> None:
    clock = ManualClock()
    net = MemoryNet(clock=clock)
    broker = Broker(
        BrokerConfig(broker_name="b", listen_port=10911, listen_host="10.0.0.1", store_root=Path("/store")),
        StoreConfig(commit_log_file_bytes=1 << 20, index_slots=10, index_entries=100),
        files=MemoryFiles(clock=clock),
        clock=clock,
        network=net.host("10.0.0.1"),
        limits=NetLimits(write_high_bytes=200_000, unsent_bytes=1_000_000),
        workers=InlineWorker,
    )
    await broker.start()
    broker.topics.put(TopicConfig("T"))
    peer = await net.host("10.0.0.2").connect(Peer, "10.0.0.1", 10911)
    assert isinstance(peer, Peer)
    for opaque in range(PULLS):
        command = held_pull()
        command.opaque = opaque
        peer.transport.write(b"".join(bytes(part) for part in peer.machine.send(command)))
    await clock.run_for(100)
    assert len(broker.reading.hold) == PULLS
    peer.transport.pause_reading()
    broker.store.put(PutMessage("T", 0, BODY))
    await clock.run_for(100)
    assert len(broker.reading.hold) == 0
    peer.transport.resume_reading()
    await clock.run_for(100)
    codes = Counter(answer.code for answer in peer.answers)
    assert codes.total() == PULLS
    assert 0 < codes[ResponseCode.SUCCESS] < 10
    nothing = [answer for answer in peer.answers if answer.code == ResponseCode.PULL_NOT_FOUND]
    assert len(nothing) == PULLS - codes[ResponseCode.SUCCESS]
    assert {(answer.fields or {})["nextBeginOffset"] for answer in nothing} == {"0"}
    assert {(answer.fields or {})["maxOffset"] for answer in nothing} == {"1"}
    peer.transport.close()
    await clock.settle()
    await broker.stop()
