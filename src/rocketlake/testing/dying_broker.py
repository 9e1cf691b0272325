"""A broker in memory whose process can end at any of its writes, and come back on the disk that is left.

Owns        one broker's disk, network host and life: start, clean stop, kill, power cut.
Must not know   the requests that the broker gets, the rules that must hold.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.store.config import StoreConfig

__all__ = ["HOST", "DyingBroker"]

HOST = "10.0.0.100"
_PORT = 10911
_CHANGES = frozenset(("pwrite", "sync", "truncate", "make_dirs", "remove", "rename", "link", "write_bytes", "sync_dir"))


class _Death(FaultPlan):
    """The end of a process at one of its changes of the disk: that change is torn, and none follows."""

    def __init__(self) -> None:
        super().__init__()
        self.is_dead = asyncio.Event()
        self.changes_left = -1
        """Changes of the disk until the end; negative: no end is planned."""
        self.keep_bytes = 0
        self._network: MemoryHost | None = None

    def strike(self, network: MemoryHost) -> None:
        """The process is dead: no other host hears of it again, and its disk stays as it is."""
        if not self.is_dead.is_set():
            self.is_dead.set()
            network.crash()

    def arm(self, changes: int, keep_bytes: int, network: MemoryHost) -> None:
        """Die after so many changes of the disk."""
        self.changes_left, self.keep_bytes, self._network = changes, keep_bytes, network

    def take(self, call: str, path: Path) -> Fault | None:
        """See FaultPlan.take."""
        if call not in _CHANGES:
            return None
        if self.is_dead.is_set():
            return Fault(call)
        if self._network is None:
            return None
        self.changes_left -= 1
        if self.changes_left >= 0:
            return None
        self.strike(self._network)
        return Fault(call, keep_bytes=self.keep_bytes)


class DyingBroker:
    """One broker and its disk. `start` and `stop` may follow each other as often as wanted."""

    def __init__(
        self, config: BrokerConfig, store: StoreConfig, net: MemoryNet, clock: ManualClock, luck: random.Random
    ) -> None:
        self._config = config
        self._store = store
        self._net = net
        self._clock = clock
        self._luck = luck
        self._disk = MemoryFiles(clock=clock)
        self._rests: list[asyncio.Task[None]] = []
        self.broker: Broker | None = None
        """The running broker, None while it is down."""
        self.death = _Death()

    async def start(self) -> Broker:
        """Start on the disk that is left. Fails only if a death is armed."""
        self.death = _Death()
        self._network = self._net.host(HOST)
        broker = Broker(
            self._config,
            self._store,
            files=FaultyFiles(self._disk, self.death),
            clock=self._clock,
            network=self._network,
            workers=InlineWorker,
        )
        await broker.start()
        self.broker = broker
        return broker

    async def stop(self) -> None:
        """A clean stop."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.stop()

    async def die(self, changes: int, keep_bytes: int, seconds: float, *, power: bool) -> None:
        """End without warning: after so many changes of the disk, or when so many seconds have passed."""
        self.death.arm(changes, keep_bytes, self._network)
        try:
            await asyncio.wait_for(self.death.is_dead.wait(), seconds)
        except TimeoutError:
            self.death.strike(self._network)
        broker, self.broker = self.broker, None
        assert broker is not None, "only a running broker dies"
        before = self._disk
        self._disk = before.power_cut(self._luck if self._luck.random() < 0.5 else None) if power else before.killed()
        self._bury(broker.stop())

    def _bury(self, rest: Coroutine[Any, Any, None]) -> None:
        """Let the objects of the dead process end in the background; their work reaches no disk and no host."""
        self._rests.append(asyncio.ensure_future(rest))

    async def close(self) -> None:
        """Everything ends."""
        await self.stop()
        await asyncio.gather(*self._rests, return_exceptions=True)
