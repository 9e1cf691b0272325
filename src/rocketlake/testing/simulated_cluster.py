"""A whole cluster in one process: its nodes, its clients, the wait until everything has arrived.

Owns        start and stop of nodes and clients, members that join, the checks of groups' offsets while it runs.
Must not know   the schedule of faults (faults.py), the messages (workload.py), the rules (checks.py).

No socket, no file, no thread, no time of this machine: MemoryNet, MemoryFiles, DiskWorker, VirtualLoop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.broker import Broker
from rocketlake.client.config import SECOND, ClientConfig, ConsumerConfig
from rocketlake.testing import checks
from rocketlake.testing.nodes import BrokerNode, NameServerNode, World
from rocketlake.testing.plan import Plan
from rocketlake.testing.workload import Receiver, Sender

__all__ = ["Cluster"]

_LOOK_SECONDS = 0.25
_ARRIVE_SECONDS = 400.0
_DELAY_SECONDS = 12.0
"""Longer than the longest delay of a message."""


class Cluster(World):
    """All nodes and clients of one run."""

    def __init__(self, plan: Plan, clock: ManualClock) -> None:
        super().__init__(plan, clock)
        self.name_servers = [NameServerNode(self, number) for number in range(plan.name_servers)]
        addresses = tuple(node.address for node in self.name_servers)
        self.brokers = [BrokerNode(self, number, addresses) for number in range(plan.brokers)]
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self._hosts = 0
        self._commits = checks.CommitWatch(self.history)
        checks.OrderlyWatch(self.history, "orderly")

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all nodes and clients."""
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

    # -- the end -------------------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Check the groups' offsets, for ever."""
        while True:
            await self.clock.sleep(_LOOK_SECONDS)
            for broker in self.running():
                self._commits.look(broker)

    def running(self) -> list[Broker]:
        """Brokers that are up."""
        return [node.broker for node in self.brokers if node.broker is not None]

    async def everything_arrives(self, sending: list[asyncio.Task[None]]) -> None:
        """Wait until all messages are sent, taken and committed; a problem if that takes too long."""
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
        """Clean stops, clients first."""
        clients: Sequence[Sender | Receiver] = (*self.senders, *self.receivers)
        for client in clients:
            await client.stop()
        for broker in self.brokers:
            await broker.stop()
        for node in self.name_servers:
            await node.stop()
        await self.all_ended()
