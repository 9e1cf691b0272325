"""A broker in memory and a raw connection to it, in two forms: with runs, and without."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.topic import TopicConfig, TopicFilterType
from rocketlake.net.limits import NetLimits
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import FrameReader, decode_frame
from rocketlake.store.config import StoreConfig
from tests.garbage import collect_if_grown

_HOST = "10.0.0.100"
_STORE = StoreConfig(
    commit_log_file_bytes=64 * 1024,
    consume_queue_file_bytes=2000,
    index_slots=10,
    index_entries=100,
    timer_log_file_bytes=5200,
    flush_least_pages=0,
)
BORN_MS = 1_700_000_000_000


class Peer(asyncio.Protocol):
    """A raw connection; `frames` are the answers, and those to `beside`."""

    def __init__(self, beside: Peer | None = None) -> None:
        self.reader = FrameReader()
        self.frames: list[Command] = beside.frames if beside else []
        self.raw: list[bytes] = beside.raw if beside else []
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            self.frames.append(decode_frame(frame))
            self.raw.append(repr(frame).encode())

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


class World:
    """One broker and one raw connection, and perhaps another one from elsewhere."""

    def __init__(
        self,
        *,
        by_runs: bool,
        sync: bool,
        plan: FaultPlan | None = None,
        limits: NetLimits | None = None,
        name: str = "b",
        takes_times: bool = True,
    ) -> None:
        self.clock = ManualClock(BORN_MS)
        self.disk = MemoryFiles(clock=self.clock)
        self.net = MemoryNet(clock=self.clock)
        self.peer = Peer()
        self.other: Peer | None = None
        self.broker = Broker(
            BrokerConfig(
                broker_name=name, cluster_name="C", listen_host=_HOST, listen_port=10911, fast_listen_port=0,
                store_root=Path("/store"),
            ),
            replace(_STORE, flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH", timer_enabled=takes_times),
            files=FaultyFiles(self.disk, plan),
            clock=self.clock,
            network=self.net.host(_HOST),
            workers=InlineWorker,
            limits=limits,
        )  # fmt: skip
        if not by_runs:  # an after-hook that does nothing: see Dispatcher.run
            self.broker._dispatcher.after.append(lambda _request, _reply: None)
            self.broker.popping.log.points = None
            self.broker.popping.reads.plain = None

    async def start(self) -> None:
        random.seed(1)  # a send without a queue gets any
        await self.broker.start()
        topics = self.broker.topics
        topics.put(TopicConfig("T", read_queues=4, write_queues=4))
        topics.put(TopicConfig("Many", read_queues=2, write_queues=3, filter_type=TopicFilterType.MULTI_TAG))
        topics.put(TopicConfig("Compacted", attributes={"cleanup.policy": "COMPACTION"}))
        await self._connect(self.peer, "10.0.0.1")

    async def send(self, chunk: bytes, *, other_link: bool = False) -> None:
        peer = self.peer
        if other_link:
            peer = self.other = self.other or await self._connect(Peer(self.peer), "10.0.0.2")
        peer.transport.write(chunk)
        await self.clock.settle()

    async def _connect(self, peer: Peer, host: str) -> Peer:
        await self.net.host(host).connect(lambda: peer, _HOST, 10911)
        return peer

    async def stop(self) -> None:
        for peer in (self.peer, self.other):
            if peer is not None:
                peer.transport.close()
        await self.clock.settle()
        await self.broker.stop()

    def counts(self) -> dict[str, object]:
        stats = self.broker.stats
        return {
            "times": stats.put_times,
            "bytes": stats.put_bytes,
            "failures": stats.put_failures,
            "got": stats.got_messages,
            "items": {
                (item, key): (counter.total, counter.calls)
                for item, counters in stats._items.items()
                for key, counter in counters.items()
            },
        }

    def contents(self) -> dict[str, bytes]:
        """Every file of the store."""
        return dict(_walk(self.disk, Path("/store")))


def _walk(files: MemoryFiles, folder: Path) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for name in files.list_dir(folder):
        path = folder / name
        if files.is_dir(path):
            found += _walk(files, path)
        else:
            file = files.open(path, read_only=True)
            found.append((str(path), file.pread(files.size(path), 0)))
            file.close()
    return found


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())
    collect_if_grown()
