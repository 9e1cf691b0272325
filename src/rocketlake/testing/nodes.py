"""Name servers and brokers of a simulated cluster: nodes that can be killed, lose power and come back.

Owns        each node's disk and place in the network, how a node dies and what its death may lose, what all nodes of a
            run share.
Must not know   what goes wrong when (faults.py), clients.

A node that is killed gets a new disk and a new network; its old objects go on for a moment with the old
ones, and no living node hears of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.memory_net import MemoryNet
from rocketlake.store.audit import audit_store
from rocketlake.testing import checks
from rocketlake.testing.disk_worker import DiskWorker
from rocketlake.testing.history import History, Queue
from rocketlake.testing.plan import Plan

__all__ = ["BrokerNode", "NameServerNode", "World"]

_ROOT = Path("/store")
_START_TRIES = 60


class World:
    """The things that all nodes of a run share: plan, time, network, random numbers, history."""

    def __init__(self, plan: Plan, clock: ManualClock) -> None:
        self.plan = plan
        self.clock = clock
        self.random = random.Random(f"cluster {plan.seed}")
        self.history = History(clock)
        self.net = MemoryNet(plan.seed, clock=clock, delay_ms=(0.1, 3.0))
        self._buried: list[asyncio.Task[None]] = []

    def bury(self, rest: Coroutine[Any, Any, None]) -> None:
        """Let the objects of a killed node or client end in the background."""
        self._buried.append(asyncio.ensure_future(rest))

    async def all_ended(self) -> None:
        """Wait for everything that was buried."""
        await asyncio.gather(*self._buried, return_exceptions=True)


class NameServerNode:
    """A name server; it keeps nothing over a crash."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.host = f"10.0.1.{number + 1}"
        self.address = f"{self.host}:9876"
        self._server: NameServer | None = None

    async def start(self) -> None:
        """Start with an empty table."""
        world = self._world
        self._network = world.net.host(self.host)
        config = NameServerConfig(listen_host=self.host, listen_port=9876, kv_config_path=Path("/kv.json"))
        self._server = NameServer(
            config, clock=world.clock, files=MemoryFiles(clock=world.clock), network=self._network
        )
        await self._server.start()
        world.history.note(f"name server {self.host} is up")

    @property
    def is_up(self) -> bool:
        """True while the name server runs."""
        return self._server is not None

    def kill(self) -> None:
        """kill -9."""
        if (server := self._server) is not None:
            self._world.history.note(f"name server {self.host} is killed")
            self._server = None
            self._network.crash()
            self._world.bury(server.stop())

    async def stop(self) -> None:
        """A clean stop."""
        if (server := self._server) is not None:
            self._server = None
            await server.stop()


class BrokerNode:
    """A broker, its disk and its place in the network."""

    def __init__(self, world: World, number: int, namesrv_addresses: tuple[str, ...]) -> None:
        self._world = world
        self._namesrv_addresses = namesrv_addresses
        self.name = f"b{number}"
        self.host = f"10.0.0.{number + 1}"
        self.disk = MemoryFiles(clock=world.clock)
        self.faulty = FaultyFiles(self.disk)
        self.slow_ms = 0.0
        self._broker: Broker | None = None
        self._ends: dict[Queue, int] = {}
        self._may_lose = False
        self._is_checked = True
        """False while the ends of the queues are not known: a start on a full disk finds them when there is room."""

    @property
    def broker(self) -> Broker | None:
        """The running broker, if there is one."""
        return self._broker

    def disk_seconds(self) -> float:
        """How long the next step of a blocking call takes."""
        return self._world.random.uniform(0.0, 0.004) + self._world.random.uniform(0.0, self.slow_ms) / 1000

    async def start(self) -> None:
        """Start; while the disk refuses, try again once a second, as an operator would."""
        world = self._world
        begun_ms = world.clock.now_ms()
        for _ in range(_START_TRIES):
            self._network = world.net.host(self.host)
            self.faulty = FaultyFiles(self.disk, self.faulty.plan)
            config = BrokerConfig(
                broker_name=self.name,
                cluster_name="C",
                listen_host=self.host,
                fast_listen_port=0,
                store_root=_ROOT,
                namesrv_addresses=self._namesrv_addresses,
                register_interval_ms=10_000,
                default_topic_queues=4,
                transaction_timeout_ms=3000,
                transaction_check_interval_ms=4000,
                transaction_checks_max=1_000_000,  # producers may be out of reach for long
            )
            broker = Broker(
                config,
                world.plan.store,
                files=self.faulty,
                clock=world.clock,
                network=self._network,
                workers=lambda name: DiskWorker(name, world.clock, self.disk_seconds),
            )
            try:
                await broker.start()
                break
            except (RocketLakeError, OSError) as error:
                world.history.note(f"{self.name} cannot start: {type(error).__name__}: {error}")
                await world.clock.sleep(1)
        else:
            raise RuntimeError(f"{self.name} cannot start; see the last events")
        self._broker = broker
        world.history.note(f"{self.name} is up, its log ends at {broker.store.max_physical_offset}")
        self._is_checked = False
        broker.store.when_complete(lambda: self._check_ends(broker, begun_ms))

    def _check_ends(self, broker: Broker, begun_ms: int) -> None:
        if broker is self._broker:
            self._is_checked = True
            ends = checks.ends_at(broker, begun_ms)
            checks.check_rewinds(self._world.history, self._ends, ends, may_lose=self._may_lose)

    async def stop(self) -> None:
        """A clean stop; when the disk refuses, it ends as a crash does."""
        if (broker := self._broker) is not None:
            self._broker = None
            self._remember(broker)
            await broker.stop()
            self._world.history.note(f"{self.name} is stopped")

    def kill(self) -> None:
        """kill -9: written bytes stay with the kernel, the write pool is gone."""
        if (broker := self._broker) is not None:
            store = broker.store
            self._world.history.note(f"{self.name} is killed, its log ends at {store.log.max_offset}")
            self._remember(broker)
            self._lose_from(store.log.max_offset)
            self._vanish(broker, self.disk.killed(), silent=False)

    def cut_power(self) -> None:
        """A power cut: synced bytes are left, and here and there a sector more."""
        if (broker := self._broker) is not None:
            store = broker.store
            self._world.history.note(f"{self.name} loses power, its log is safe to {store.flushed_offset}")
            self._remember(broker)
            if not self._world.plan.store.sync_flush:
                self._may_lose = self._world.history.is_lossy = True
            self._lose_from(store.flushed_offset)
            luck = self._world.random if self._world.random.random() < 0.7 else None
            self._vanish(broker, self.disk.power_cut(luck), silent=True)

    def _lose_from(self, offset: int) -> None:
        plan, history = self._world.plan, self._world.history
        if not plan.store.sync_flush:
            history.lose_from(self.name, offset)
            self._may_lose = self._may_lose or plan.store.write_pool_enabled
            history.is_lossy = history.is_lossy or plan.store.write_pool_enabled
        else:
            for ack in history.all_acks:
                if ack.queue[0] == self.name and ack.physical_offset >= offset:
                    history.problem(f"{ack} was acknowledged before it was safe: {offset}")

    def _remember(self, broker: Broker) -> None:
        """Note where readers saw the queues end; the next start is compared with that."""
        self._world.history.crashes += 1
        ends = checks.queue_ends(broker)
        if self._is_checked:
            self._ends, self._may_lose = ends, False
        else:
            self._ends = {queue: max(ends.get(queue, 0), self._ends.get(queue, 0)) for queue in ends | self._ends}

    def _vanish(self, broker: Broker, disk: MemoryFiles, *, silent: bool) -> None:
        self._broker = None
        self.disk = disk
        self._network.crash(silent=silent)
        self._world.bury(broker.stop())

    def audit(self) -> None:
        """Log, queues and index agree; for a broker that is stopped."""
        store = self._world.plan.store
        for finding in audit_store(
            _ROOT, files=self.disk, index_slots=store.index_slots, index_entries=store.index_entries
        ):
            # With messageIndexSafe=false a recovery starts behind entries that the index may lack.
            if finding.kind == "index-missing" and self._world.history.crashes and not store.index_safe:
                continue
            self._world.history.problem(f"audit of {self.name}: {finding}")
