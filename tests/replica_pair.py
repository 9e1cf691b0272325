"""A master, a slave and a name server in one process: network and disks in memory, time moved by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.store.config import StoreConfig

NAMESRV, MASTER, SLAVE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
_STORE = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_least_pages=0)


class ReplicaPair:
    """Brokers "b" with the ids 0 and 1. Both start registered; nothing is copied before time moves."""

    def __init__(self) -> None:
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
        return Broker(
            replace(config, **settings),
            _STORE,
            files=files or MemoryFiles(clock=self.clock),
            clock=self.clock,
            network=self.net.host(host),
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

    async def ask(self, host: str, command: Command) -> Command:
        """The answer of the broker at this host."""
        return await self.client.invoke(f"{host}:10911", command, 1e9)
