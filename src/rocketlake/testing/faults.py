"""The faults of a simulated run: their kinds, times and victims, drawn from the seed; and the healing.

Owns        one method per kind of fault, the schedule, bringing everything back.
Must not know   the rules that must hold meanwhile (checks.py).
"""

from __future__ import annotations

import asyncio
import errno
import random

from rocketlake.base.disk.faulty import Fault
from rocketlake.testing.nodes import BrokerNode
from rocketlake.testing.simulated_cluster import Cluster

__all__ = ["Faults"]

_FIRST_SECONDS = 3.0
_LAST_SECONDS = 30.0
_MOST = 8


class Faults:
    """The schedule of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._random = random.Random(f"faults {cluster.plan.seed}")
        self._kinds = (
            self.cut_links,
            self.slow_net,
            self.partition,
            self.kill_broker,
            self.cut_power,
            self.cut_power,
            self.restart_broker,
            self.failed_sync,
            self.torn_write,
            self.full_disk,
            self.failing_tables,
            self.slow_disk,
            self.kill_name_server,
            self.kill_receiver,
            self.leave_and_join,
        )

    async def happen(self) -> None:
        """All faults of the run, which may overlap; every tenth run has none."""
        count = 0 if self._random.random() < 0.1 else self._random.randint(1, _MOST)
        times = sorted(self._random.uniform(_FIRST_SECONDS, _LAST_SECONDS) for _ in range(count))
        under_way = []
        for time in times:
            await self._clock.sleep(time - self._clock.monotonic())
            kind = self._random.choice(self._kinds)
            under_way.append(asyncio.ensure_future(kind()))
        await asyncio.gather(*under_way)

    async def heal(self) -> None:
        """Net and disks work, everything is up, both groups have a member."""
        cluster = self._cluster
        cluster.net.heal()
        cluster.net.cut_chance = 0.0
        cluster.net.delay_ms = (0.1, 3.0)
        for server in cluster.name_servers:
            if not server.is_up:
                await server.start()
        for node in cluster.brokers:
            node.faulty.plan.clear()
            node.disk.capacity = 1 << 40
            node.slow_ms = 0.0
            if node.broker is not None and not node.broker.store.writable:
                # The retention's next look finds room again; a failed sync needs a restart.
                await self._clock.sleep(12)
                if not node.broker.store.writable:
                    self._note(f"{node.name} is restarted: {node.broker.store.not_writable_reason}")
                    await node.stop()
            if node.broker is None:
                await node.start()
        for group in ("concurrent", "orderly"):
            await cluster.join(group, f"{group[0]}9")
        self._note("healed")

    # -- the network ---------------------------------------------------------------------------------------------------

    async def cut_links(self) -> None:
        """For some seconds any chunk may end its connection."""
        self._note("links break")
        self._cluster.net.cut_chance = self._random.choice((0.01, 0.1))
        await self._clock.sleep(self._random.uniform(0.5, 5))
        self._cluster.net.cut_chance = 0.0

    async def slow_net(self) -> None:
        """For some seconds bytes take long."""
        self._note("the network is slow")
        self._cluster.net.delay_ms = (0.1, self._random.choice((100.0, 800.0, 2500.0)))
        await self._clock.sleep(self._random.uniform(1, 8))
        self._cluster.net.delay_ms = (0.1, 3.0)

    async def partition(self) -> None:
        """Two hosts do not hear each other; all partitions end at once."""
        cluster = self._cluster
        servers = [node.host for node in cluster.brokers] + [node.host for node in cluster.name_servers]
        one = self._random.choice(servers)
        other = self._random.choice([host for host in (*servers, *cluster.client_hosts) if host != one])
        self._note(f"{one} and {other} are parted")
        cluster.net.partition(one, other)
        await self._clock.sleep(self._random.choice((1, 5, 20)))
        cluster.net.heal()

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def kill_broker(self) -> None:
        """kill -9 and, after a while, a start."""
        if node := self._running_broker():
            node.kill()
            await self._back(node)

    async def cut_power(self) -> None:
        """Power cut and, after a while, a start."""
        if node := self._running_broker():
            node.cut_power()
            await self._back(node)

    async def restart_broker(self) -> None:
        """A proper stop and start."""
        if node := self._running_broker():
            await node.stop()
            await self._back(node)

    async def _back(self, node: BrokerNode) -> None:
        await self._clock.sleep(self._random.choice((0.1, 1.0, 6.0)))
        await node.start()

    # -- disks ---------------------------------------------------------------------------------------------------------

    async def failed_sync(self) -> None:
        """A sync of the log fails; whether the bytes are on disk is not known. Then the broker ends in some way."""
        if node := self._running_broker():
            await self._with_fault(node, Fault("sync", "commitlog", times=1), 3)
            if node.broker is not None:
                self._note(f"{node.name} after a failed sync: {node.broker.store.not_writable_reason or 'writable'}")
                self._random.choice((node.kill, node.cut_power))()
                await self._back(node)

    async def torn_write(self) -> None:
        """Some writes of the log stop in the middle."""
        if node := self._running_broker():
            fault = Fault(
                "pwrite", "commitlog", times=self._random.randint(1, 3), keep_bytes=self._random.randint(0, 90)
            )
            await self._with_fault(node, fault, 3)

    async def full_disk(self) -> None:
        """No new file fits for a while."""
        if node := self._running_broker():
            self._note(f"the disk of {node.name} is full")
            node.disk.capacity = node.disk.used
            await self._clock.sleep(self._random.uniform(1, 10))
            node.disk.capacity = 1 << 40

    async def failing_tables(self) -> None:
        """Topics, groups and offsets cannot be saved for a while."""
        if node := self._running_broker():
            call = self._random.choice(("write_bytes", "rename", "sync_dir"))
            fault = Fault(call, "/config", error=self._random.choice((errno.EIO, errno.ENOSPC)))
            await self._with_fault(node, fault, self._random.uniform(1, 10))

    async def slow_disk(self) -> None:
        """Syncs take long."""
        if node := self._running_broker():
            self._note(f"the disk of {node.name} is slow")
            node.slow_ms = self._random.choice((100.0, 1500.0, 6000.0))
            await self._clock.sleep(self._random.uniform(2, 8))
            node.slow_ms = 0.0

    async def _with_fault(self, node: BrokerNode, fault: Fault, seconds: float) -> None:
        self._note(f"{node.name}: {fault.call} of {fault.path_part} fails")
        node.faulty.plan.add(fault)
        await self._clock.sleep(seconds)
        # Not `remove`: a fault added meanwhile may be equal.
        faults = node.faulty.plan.faults
        faults[:] = [other for other in faults if other is not fault]

    # -- others --------------------------------------------------------------------------------------------------------

    async def kill_name_server(self) -> None:
        """A name server dies and comes back empty."""
        node = self._random.choice(self._cluster.name_servers)
        if node.is_up:
            node.kill()
            await self._clock.sleep(self._random.choice((0.5, 5.0, 15.0)))
            await node.start()

    async def kill_receiver(self) -> None:
        """A consumer's process dies; another one joins later."""
        cluster = self._cluster
        if cluster.receivers:
            receiver = cluster.receivers.pop(self._random.randrange(len(cluster.receivers)))
            self._note(f"{receiver.group}/{receiver.name} is killed")
            cluster.bury(receiver.crash())
            await self._clock.sleep(self._random.uniform(0.1, 5))
            await cluster.join(receiver.group, receiver.name + "'")

    async def leave_and_join(self) -> None:
        """A consumer leaves properly, and another one joins."""
        cluster = self._cluster
        if cluster.receivers:
            receiver = cluster.receivers.pop(self._random.randrange(len(cluster.receivers)))
            self._note(f"{receiver.group}/{receiver.name} leaves")
            await receiver.stop()
            await cluster.join(receiver.group, receiver.name + "+")

    def _running_broker(self) -> BrokerNode | None:
        nodes = [node for node in self._cluster.brokers if node.broker is not None]
        return self._random.choice(nodes) if nodes else None

    def _note(self, text: str) -> None:
        self._cluster.history.note(text)
