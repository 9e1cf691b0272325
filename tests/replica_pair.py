"""A master, a slave and a name server in one process: network and disks in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import send_header

T = TypeVar("T")
NAMESRV, MASTER, SLAVE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
_STORE = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_least_pages=0)


class ReplicaPair:
    """Brokers "b" with the ids 0 and 1. Both start registered; nothing is copied before time moves."""

    def __init__(self, **settings: Any) -> None:
        """`settings`: of both brokers."""
        self._settings = settings
        self.hosts: dict[str, MemoryHost] = {}
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.77"))
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"))
        self.namesrv = NameServer(config, clock=self.clock, files=MemoryFiles(), network=self.net.host(NAMESRV))
        self.master = self.new_broker(MASTER, 0)
        self.slave = self.new_broker(SLAVE, 1)

    def new_broker(self, host: str, broker_id: int, files: MemoryFiles | None = None, **settings: Any) -> Broker:
        """A broker at port 10911 of the host, not started."""
        config = BrokerConfig(
            broker_name="b",
            cluster_name="C",
            broker_id=broker_id,
            listen_host=host,
            fast_listen_port=0,
            store_root=Path("/s"),
            namesrv_addresses=(f"{NAMESRV}:9876",),
        )
        self.hosts[host] = network = self.net.host(host)
        return Broker(
            replace(config, **(self._settings | settings)),
            _STORE,
            files=files or MemoryFiles(clock=self.clock),
            clock=self.clock,
            network=network,
            workers=InlineWorker,
        )

    async def start(self) -> None:
        """Start all three, the master first."""
        await self.namesrv.start()
        await self.master.start()
        await self.slave.start()

    async def stop(self) -> None:
        """Stop all three."""
        await self.client.close()
        await self.slave.stop()
        await self.master.stop()
        await self.namesrv.stop()

    def vanish_master(self) -> None:
        """The machine of the master is gone, without a word to those that are connected."""
        self.hosts[MASTER].crash(silent=True)

    async def create_topic(self, host: str, name: str) -> Command:
        """The answer to UPDATE_AND_CREATE_TOPIC."""
        header = CreateTopicHeader(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=3,
            write_queue_nums=3,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        return await self.ask(host, Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))

    async def send_batch(self, first: int, count: int, host: str = MASTER) -> int:
        """Messages of one effectively-once producer to T; how many of them the broker knew."""
        body = encode_batch(Message("T", b"%d" % number) for number in range(first, first + count))
        header = send_header(properties=f"__RL_SEQ\x01q/0/0/{first}/l\x02", batch=True)
        answer = await self.ask(host, Command.request(RequestCode.SEND_BATCH_MESSAGE, header, body))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.header(SendReplyHeader).known or 0

    async def ask(self, host: str, command: Command) -> Command:
        """The answer of the broker at this host."""
        return await self.follow(self.client.invoke(f"{host}:10911", command, 1e9))

    async def follow(self, call: Coroutine[Any, Any, T]) -> T:
        """What the call gives; time moves in tenths of a second until it is done."""
        asked = asyncio.create_task(call)
        await self.clock.settle()
        while not asked.done():
            await self.clock.run_for(100)
        return await asked
