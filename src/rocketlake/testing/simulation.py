"""A whole cluster in one process, and what goes wrong with it, from one seed.

Owns        name servers and brokers as nodes that can be killed, lose power and come back; the life of a run: traffic
            under faults, healing, the wait until everything has arrived, the final look.
Must not know   what goes wrong when (faults.py), what is sent (workload.py), what must hold (checks.py).

No socket, no file, no thread, no time of this machine: MemoryNet, MemoryFiles, DiskWorker, VirtualLoop. A node that is
killed gets a new disk and a new network; its old objects go on for a moment with the old ones and reach nobody.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.worker import Call, Done
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.client.config import SECOND, ClientConfig, ConsumerConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.memory_net import MemoryNet
from rocketlake.store.audit import audit_store
from rocketlake.store.config import StoreConfig
from rocketlake.testing import checks
from rocketlake.testing.history import History, Queue
from rocketlake.testing.virtual_time import run_virtual
from rocketlake.testing.workload import Load, Receiver, Sender

__all__ = ["BrokerNode", "Cluster", "DiskWorker", "NameServerNode", "Plan", "run_seed"]

_ROOT = Path("/store")
_LOOK_SECONDS = 0.25
_ARRIVE_SECONDS = 400.0
_START_TRIES = 60
_DELAY_SECONDS = 12.0
"""Longer than the longest delay of a message."""


class DiskWorker:
    """Runs blocking calls one after the other; each takes some time before and after it reaches the disk."""

    def __init__(self, name: str, node: BrokerNode) -> None:
        self.name = name
        self._node = node
        self._jobs: deque[tuple[Call, Done]] = deque()
        self._is_busy = False

    def submit(self, call: Call, done: Done) -> None:
        """See Worker.submit."""
        self._jobs.append((call, done))
        self._next()

    def _next(self) -> None:
        if self._jobs and not self._is_busy:
            self._is_busy = True
            self._later(self._run)

    def _run(self) -> None:
        result, problem = None, None
        try:
            result = self._jobs[0][0]()
        except Exception as error:  # given to `done`, as ThreadWorker does
            problem = error
        self._later(self._end, result, problem)

    def _end(self, result: object, problem: Exception | None) -> None:
        _, done = self._jobs.popleft()
        self._is_busy = False
        try:
            done(result, problem)
        finally:
            self._next()

    def _later(self, step: Callable[..., object], *arguments: object) -> None:
        asyncio.get_running_loop().call_later(self._node.disk_seconds(), step, *arguments)

    async def close(self) -> None:
        """Wait for what was submitted."""
        while self._jobs or self._is_busy:
            await self._node.cluster.clock.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed makes of the cluster."""

    seed: int
    name_servers: int
    brokers: int
    senders: int
    receivers: int
    store: StoreConfig
    load: Load

    @classmethod
    def of(cls, seed: int) -> Plan:
        """Small files, so that they roll; both ways to flush."""
        choice = random.Random(f"plan {seed}")
        pool = choice.random() < 0.15
        store = StoreConfig(
            flush_disk_type=choice.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            sync_flush_timeout_ms=choice.choice((1000, 5000)),
            commit_log_file_bytes=choice.choice((8, 16, 64)) * 1024,
            consume_queue_file_bytes=20 * choice.choice((7, 20, 100)),
            index_slots=10,
            index_entries=choice.choice((20, 100)),
            index_safe=choice.random() < 0.5,
            flush_least_pages=choice.choice((0, 4)),
            write_pool_enabled=pool,
            write_pool_buffers=3,
            clean_forcibly=False,
        )
        return cls(
            seed,
            name_servers=choice.randint(1, 2),
            brokers=choice.randint(1, 2),
            senders=2,
            receivers=choice.randint(1, 3),
            store=store,
            load=Load(messages=choice.choice((30, 60, 100)), refuse_chance=choice.choice((0.0, 0.03, 0.1))),
        )


class NameServerNode:
    """A name server; it keeps nothing over a crash."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.host = f"10.0.1.{number + 1}"
        self.address = f"{self.host}:9876"
        self._server: NameServer | None = None

    async def start(self) -> None:
        """Up with an empty table."""
        cluster = self.cluster
        self._network = cluster.net.host(self.host)
        config = NameServerConfig(listen_host=self.host, listen_port=9876, kv_config_path=Path("/kv.json"))
        self._server = NameServer(
            config, clock=cluster.clock, files=MemoryFiles(clock=cluster.clock), network=self._network
        )
        await self._server.start()
        cluster.history.note(f"name server {self.host} is up")

    @property
    def is_up(self) -> bool:
        """Is there one?"""
        return self._server is not None

    def kill(self) -> None:
        """kill -9."""
        if (server := self._server) is not None:
            self.cluster.history.note(f"name server {self.host} is killed")
            self._server = None
            self._network.crash()
            self.cluster.bury(server.stop())

    async def stop(self) -> None:
        """A proper stop."""
        if (server := self._server) is not None:
            self._server = None
            await server.stop()


class BrokerNode:
    """A broker, its disk and its place in the network."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.name = f"b{number}"
        self.host = f"10.0.0.{number + 1}"
        self.disk = MemoryFiles(clock=cluster.clock)
        self.faulty = FaultyFiles(self.disk)
        self.slow_ms = 0.0
        self._broker: Broker | None = None
        self._ends: dict[Queue, int] = {}
        self._may_lose = False

    @property
    def broker(self) -> Broker | None:
        """The running broker, if there is one."""
        return self._broker

    def disk_seconds(self) -> float:
        """How long the next step of a blocking call takes."""
        return self.cluster.random.uniform(0.0, 0.004) + self.cluster.random.uniform(0.0, self.slow_ms) / 1000

    async def start(self) -> None:
        """Up again; while the disk refuses, an operator tries once a second."""
        cluster = self.cluster
        begun_ms = cluster.clock.now_ms()
        for _ in range(_START_TRIES):
            self._network = cluster.net.host(self.host)
            self.faulty = FaultyFiles(self.disk, self.faulty.plan)
            config = BrokerConfig(
                broker_name=self.name,
                cluster_name="C",
                listen_host=self.host,
                fast_listen_port=0,
                store_root=_ROOT,
                namesrv_addresses=tuple(node.address for node in cluster.name_servers),
                register_interval_ms=10_000,
                default_topic_queues=4,
                transaction_timeout_ms=3000,
                transaction_check_interval_ms=4000,
                transaction_checks_max=1_000_000,  # producers may be out of reach for long
            )
            broker = Broker(
                config,
                cluster.plan.store,
                files=self.faulty,
                clock=cluster.clock,
                network=self._network,
                workers=lambda name: DiskWorker(name, self),
            )
            try:
                await broker.start()
                break
            except (RocketLakeError, OSError) as error:
                cluster.history.note(f"{self.name} cannot start: {type(error).__name__}: {error}")
                await cluster.clock.sleep(1)
        else:
            raise RuntimeError(f"{self.name} cannot start; see the last events")
        self._broker = broker
        ends = checks.ends_at(broker, begun_ms)
        cluster.history.note(f"{self.name} is up, its log ends at {broker.store.max_physical_offset}")
        checks.check_rewinds(cluster.history, self._ends, ends, may_lose=self._may_lose)

    async def stop(self) -> None:
        """A proper stop. When the disk refuses, it is the stop of a crash."""
        if (broker := self._broker) is not None:
            self._broker = None
            self._remember(broker)
            await broker.stop()
            self.cluster.history.note(f"{self.name} is stopped")

    def kill(self) -> None:
        """kill -9: what was written is in the kernel's hands, the write pool is gone."""
        if (broker := self._broker) is not None:
            store = broker.store
            self.cluster.history.note(f"{self.name} is killed, its log ends at {store.log.max_offset}")
            self._remember(broker)
            self._lose_from(store.log.max_offset)
            self._vanish(broker, self.disk.killed(), silent=False)

    def cut_power(self) -> None:
        """Only what was synced is left, and here and there a sector more."""
        if (broker := self._broker) is not None:
            store = broker.store
            self.cluster.history.note(f"{self.name} loses power, its log is safe to {store.flushed_offset}")
            self._remember(broker)
            if not self.cluster.plan.store.sync_flush:
                self._may_lose = self.cluster.history.is_lossy = True
            self._lose_from(store.flushed_offset)
            luck = self.cluster.random if self.cluster.random.random() < 0.7 else None
            self._vanish(broker, self.disk.power_cut(luck), silent=True)

    def _lose_from(self, offset: int) -> None:
        plan, history = self.cluster.plan, self.cluster.history
        if not plan.store.sync_flush:
            history.lose_from(self.name, offset)
            self._may_lose = self._may_lose or plan.store.write_pool_enabled
            history.is_lossy = history.is_lossy or plan.store.write_pool_enabled
        else:
            for ack in history.all_acks:
                if ack.queue[0] == self.name and ack.physical_offset >= offset:
                    history.problem(f"{ack} was acknowledged before it was safe: {offset}")

    def _remember(self, broker: Broker) -> None:
        """Where readers saw the queues end; the next start is measured by it."""
        self.cluster.history.crashes += 1
        self._ends = checks.queue_ends(broker)
        self._may_lose = False

    def _vanish(self, broker: Broker, disk: MemoryFiles, *, silent: bool) -> None:
        self._broker = None
        self.disk = disk
        self._network.crash(silent=silent)
        self.cluster.bury(broker.stop())

    def audit(self) -> None:
        """Log, queues and index agree; for a broker that is stopped."""
        store = self.cluster.plan.store
        for finding in audit_store(
            _ROOT, files=self.disk, index_slots=store.index_slots, index_entries=store.index_entries
        ):
            # With messageIndexSafe=false a recovery starts behind what the index may lack.
            if finding.kind == "index-missing" and self.cluster.history.crashes and not store.index_safe:
                continue
            self.cluster.history.problem(f"audit of {self.name}: {finding}")


class Cluster:
    """All nodes and clients of one run."""

    def __init__(self, plan: Plan, clock: ManualClock) -> None:
        self.plan = plan
        self.clock = clock
        self.random = random.Random(f"cluster {plan.seed}")
        self.history = History(clock)
        self.net = MemoryNet(plan.seed, clock=clock, delay_ms=(0.1, 3.0))
        self.name_servers = [NameServerNode(self, number) for number in range(plan.name_servers)]
        self.brokers = [BrokerNode(self, number) for number in range(plan.brokers)]
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self._buried: list[asyncio.Task[None]] = []
        self._hosts = 0
        self._commits = checks.CommitWatch(self.history)
        checks.OrderlyWatch(self.history, "orderly")

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything up and at work."""
        for node in self.name_servers:
            await node.start()
        for broker in self.brokers:
            await broker.start()
        self.senders = [self._sender(number) for number in range(self.plan.senders)]
        for number in range(self.plan.receivers):
            for group in ("concurrent", "orderly"):
                await self.join(group, f"{group[0]}{number}")

    def _sender(self, number: int) -> Sender:
        host, config = self._client()
        return Sender(f"s{number}", host, self._namesrv, self.net, self.history, self.plan.load, config)

    async def join(self, group: str, name: str) -> None:
        """One more member of a consumer group."""
        host, config = self._client()
        consumer = ConsumerConfig(
            hold_ms=self.random.choice((1, 5, 15)) * SECOND,
            pull_batch_size=self.random.choice((4, 32)),
            batch_size=1,
            concurrency=4,
            rebalance_interval_ms=5 * SECOND,
            lock_interval_ms=5 * SECOND,
        )
        receiver = Receiver(name, group, host, self._namesrv, self.net, self.history, self.plan.load, config, consumer)
        self.history.note(f"{group}/{name} joins")
        try:
            await receiver.start()
        except RocketLakeError as error:
            self.history.note(f"{group}/{name} could not join: {type(error).__name__}")
            await receiver.stop()
        else:
            self.receivers.append(receiver)

    def _client(self) -> tuple[str, ClientConfig]:
        self._hosts += 1
        return f"10.0.2.{self._hosts}", ClientConfig(
            route_interval_ms=10 * SECOND, heartbeat_interval_ms=10 * SECOND, persist_interval_ms=2 * SECOND
        )

    @property
    def _namesrv(self) -> str:
        return ";".join(node.address for node in self.name_servers)

    @property
    def client_hosts(self) -> list[str]:
        """Hosts of all clients there ever were."""
        return [f"10.0.2.{number + 1}" for number in range(self._hosts)]

    def bury(self, rest: Coroutine[Any, Any, None]) -> None:
        """Let the objects of something that was killed end in the background."""
        self._buried.append(asyncio.ensure_future(rest))

    # -- the end -------------------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Watches groups' offsets, for ever."""
        while True:
            await self.clock.sleep(_LOOK_SECONDS)
            for broker in self.running():
                self._commits.look(broker)

    def running(self) -> list[Broker]:
        """Brokers that are up."""
        return [node.broker for node in self.brokers if node.broker is not None]

    async def everything_arrives(self, sending: list[asyncio.Task[None]]) -> None:
        """Wait until all is sent, taken and committed; too long is a problem."""
        await asyncio.wait(sending, timeout=_ARRIVE_SECONDS)
        await self.clock.sleep(_DELAY_SECONDS)
        deadline = self.clock.monotonic() + _ARRIVE_SECONDS
        lacking = ["not everything is sent"]
        while lacking and self.clock.monotonic() < deadline and not self.history.problems:
            await self.clock.sleep(0.5)
            if all(task.done() for task in sending):
                lacking = checks.owed(self.history, self.running())
        for text in [] if self.history.problems else lacking[:5]:
            self.history.problem(f"{_ARRIVE_SECONDS:g} s after the last fault: {text}")
        self.history.note("everything has arrived")

    async def stop(self) -> None:
        """Proper stops, clients first."""
        clients: Sequence[Sender | Receiver] = (*self.senders, *self.receivers)
        for client in clients:
            await client.stop()
        for broker in self.brokers:
            await broker.stop()
        for node in self.name_servers:
            await node.stop()
        await asyncio.gather(*self._buried, return_exceptions=True)


def run_seed(seed: int) -> History:
    """One run; its problems are what broke. Equal seeds give equal event logs."""

    async def run() -> History:
        cluster = Cluster(Plan.of(seed), clock)
        history = cluster.history
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: history.problem(f"{context['message']}: {context.get('exception')!r}")
        )
        try:
            await _live(cluster)
        except Exception as error:  # the events tell more than the traceback
            history.problem(f"the run ended with {error!r}")
        return history

    clock = ManualClock()
    before = random.getstate()
    # Clients and brokers draw from the module's generator where any number will do: here it is seeded, too. The process
    # id goes into unique keys, and their hashes into the key index.
    random.seed(seed)
    try:
        with mock.patch.object(os, "getpid", lambda: seed):
            return run_virtual(run(), clock)
    finally:
        random.setstate(before)


async def _live(cluster: Cluster) -> None:
    """The life of a run, from the first start to the last stop."""
    from rocketlake.testing.faults import Faults  # it needs the nodes defined here

    await cluster.start()
    looking = asyncio.ensure_future(cluster.look())
    sending = [asyncio.ensure_future(sender.run()) for sender in cluster.senders]
    faults = Faults(cluster)
    await faults.happen()
    await faults.heal()
    await cluster.everything_arrives(sending)
    checks.check_stored(cluster.history, checks.read_all(cluster.running(), cluster.history))
    checks.check_key_order(cluster.history)
    for task in (looking, *sending):
        task.cancel()
    await cluster.stop()
    for broker in cluster.brokers:
        broker.audit()


def main() -> None:
    """`python -m rocketlake.testing.simulation SEED`: print what happened, and what should not have."""
    history = run_seed(int(sys.argv[1]))
    print("\n".join((*history.events, *history.problems)))
    sys.exit(bool(history.problems))


if __name__ == "__main__":
    main()
