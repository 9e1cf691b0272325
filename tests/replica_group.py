"""A group of brokers under a controller, in one process: network and disks in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.membership.standing import State
from rocketlake.codec.record import decode_records
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from tests.requests import send_header

NAMESRV = "10.0.0.1"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
STORE_ROOT = Path("/s")
STORE = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_least_pages=0)


class ReplicaGroup:
    """Brokers of "b" at 10.0.0.11, 10.0.0.12, ...; the name server with the controller at 10.0.0.1."""

    def __init__(self, count: int = 3, **settings: Any) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.77"))
        self.settings = settings
        self.namesrv_files = MemoryFiles(clock=self.clock)
        self.namesrv = self.new_namesrv()
        self.hosts = [f"10.0.0.{11 + number}" for number in range(count)]
        self.files = {host: MemoryFiles(clock=self.clock) for host in self.hosts}
        self.networks: dict[str, MemoryHost] = {}
        self.boots = 0
        for files in self.files.values():
            self.boot(files)
        self.brokers = {host: self.new_broker(host) for host in self.hosts}

    def boot(self, files: MemoryFiles) -> None:
        """The kernel gives this boot of the machine a name."""
        files.make_dirs(BOOT_ID.parent)
        files.write_bytes(BOOT_ID, f"boot-{self.boots}\n".encode())

    def new_namesrv(self) -> NameServer:
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), enable_controller=True)
        network = self.net.host(NAMESRV)
        return NameServer(config, clock=self.clock, files=self.namesrv_files, network=network)

    def new_broker(self, host: str, store: StoreConfig | None = None) -> Broker:
        """A broker on the disk of this host, not started."""
        config = BrokerConfig(
            **{
                "broker_name": "b",
                "cluster_name": "C",
                "listen_host": host,
                "fast_listen_port": 0,
                "store_root": STORE_ROOT,
                "namesrv_addresses": (f"{NAMESRV}:9876",),
                "controller_mode": True,
                "controller_addresses": (f"{NAMESRV}:9876",),
                "slave_timeout_ms": 2000,
                **self.settings,
            }
        )
        self.networks[host] = self.net.host(host)
        return Broker(
            config,
            store or STORE,
            files=self.files[host],
            clock=self.clock,
            network=self.networks[host],
            workers=InlineWorker,
        )

    async def start(self) -> None:
        """Start all, one after the other, and wait until there is a master with all in step."""
        await self.namesrv.start()
        for host in self.hosts:
            await self.brokers[host].start()
        await self.until(lambda: self.in_step == set(range(1, len(self.hosts) + 1)), 20_000)

    async def restart_namesrv(self, files: MemoryFiles | None = None) -> MemoryFiles:
        """Stop the name server and start it again, on `files` if a backup is put back; a backup of what it had."""
        await self.run_through(asyncio.ensure_future(self.namesrv.stop()))
        backup = self.namesrv_files.killed()
        self.namesrv_files = self.namesrv_files if files is None else files
        self.namesrv = self.new_namesrv()
        await self.namesrv.start()
        return backup

    async def stop(self) -> None:
        """Stop all."""
        await self.client.close()
        stops = [broker.stop() for broker in self.brokers.values() if broker.is_running]
        await self.run_through(asyncio.gather(*stops))
        await self.run_through(asyncio.ensure_future(self.namesrv.stop()))

    async def run_through(self, future: asyncio.Future[Any]) -> None:
        """Move time until it is done."""
        while not future.done():
            await self.clock.run_for(20)
        future.result()

    async def until(self, is_so: Any, most_ms: int = 10_000) -> int:
        """Move time until it is so; the milliseconds it took."""
        for passed in range(0, most_ms, 10):
            if is_so():
                return passed
            await self.clock.run_for(10)
        raise AssertionError(f"not within {most_ms} ms: {self.picture()}")

    # -- what is so ----------------------------------------------------------------------------------------------------

    def picture(self) -> list[tuple[str, str, int, Any]]:
        found = []
        for host, broker in self.brokers.items():
            membership = broker.membership
            assert membership is not None
            replicas = membership.in_step.replicas
            standing = membership.member.standing
            found.append((host, standing.state.value, standing.goal.epoch, replicas and sorted(replicas.recorded)))
        return found

    @property
    def masters(self) -> list[str]:
        """The hosts of running brokers that are masters."""
        return [host for host, broker in self.brokers.items() if broker.is_running and self.state(host) is State.MASTER]

    @property
    def master(self) -> str:
        (host,) = self.masters
        return host

    @property
    def in_step(self) -> set[int]:
        """The recorded set, as the newest master knows it."""
        sets = [
            (membership.in_step.epoch, membership.in_step.replicas.recorded)
            for broker in self.brokers.values()
            if (membership := broker.membership) is not None and membership.in_step.replicas is not None
        ]
        return set(max(sets, key=lambda each: each[0])[1]) if sets else set()

    def state(self, host: str) -> State:
        membership = self.brokers[host].membership
        assert membership is not None
        return membership.member.standing.state

    def epoch(self, host: str) -> int:
        """The newest master epoch that this broker has heard of."""
        membership = self.brokers[host].membership
        assert membership is not None
        return membership.member.standing.goal.epoch

    def bodies(self, host: str) -> list[bytes]:
        """What consumers can read of topic T, queue 0. One read gives as many messages as one answer may carry."""
        store = self.brokers[host].store
        bodies: list[bytes] = []
        while read := store.get("T", 0, len(bodies), 1000, 1 << 20).slices:
            bodies += [bytes(message.body) for message in decode_records(b"".join(read))]
        return bodies

    # -- what happens --------------------------------------------------------------------------------------------------

    async def send(self, body: bytes, host: str = "") -> int:
        """Send to a broker, the master unless one is named; the code of the answer, -1 without one."""
        command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic="T", properties=""), body)
        asked = asyncio.ensure_future(self.client.invoke(f"{host or self.master}:10911", command, 3000))
        while not asked.done():
            await self.clock.run_for(5)
        try:
            return asked.result().code
        except LinkError:
            return -1

    async def send_until_taken(self, body: bytes, most_ms: int = 10_000) -> int:
        """Try again at whatever master there is until the message is acknowledged; the milliseconds it took."""
        began = self.clock.monotonic()
        while (self.clock.monotonic() - began) * 1000 < most_ms:
            hosts = self.masters
            if hosts and await self.send(body, hosts[-1]) == 0:
                return round((self.clock.monotonic() - began) * 1000)
            await self.clock.run_for(10)
        raise AssertionError(f"not taken within {most_ms} ms: {self.picture()}")

    async def lose_the_master(self) -> None:
        """Three messages, then the master is gone: another one takes the next, and the rest have all four."""
        assert [await self.send(b"%d" % number) for number in range(3)] == [0] * 3
        old = self.master
        self.crash(old)
        assert await self.send_until_taken(b"next") < 2000
        await self.clock.run_for(1000)
        rest = [host for host in self.hosts if host != old]
        assert [self.bodies(host) for host in rest] == [[b"0", b"1", b"2", b"next"]] * 2

    def crash(self, host: str, *, silent: bool = False) -> None:
        """The process is gone, and what it wrote stays; `silent`: its machine, which tells nobody."""
        self.networks[host].crash(silent=silent)
        for service in self.brokers[host].services():
            service.is_running = False
            for task in list(service._tasks):
                task.cancel()

    async def begin_elsewhere(self, old: str, new: str) -> None:
        """Start the broker of a machine that is gone on another one: its disk comes along."""
        self.hosts[self.hosts.index(old)] = new
        self.files[new] = self.files.pop(old).killed()
        self.boots += 1
        self.boot(self.files[new])
        del self.brokers[old]
        self.brokers[new] = self.new_broker(new)
        await self.brokers[new].start()

    async def begin_again(self, host: str, *, power_cut: bool = False) -> None:
        """Start a broker that has crashed, on its disk; `power_cut`: without what was not synced, in a new boot."""
        files = self.files[host]
        self.files[host] = files.power_cut() if power_cut else files.killed()
        if power_cut:
            self.boots += 1
            self.boot(self.files[host])
        self.brokers[host] = self.new_broker(host)
        await self.brokers[host].start()
