"""Replicas of one log without brokers: stores, epochs and the AutoSwitch stream, in memory, time moved by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rocketlake.base.clock import Clock, ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import InlineWorker, Worker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.network import Network
from rocketlake.replication.auto_switch.master_end import AutoSwitchLeader, LeaderSays
from rocketlake.replication.auto_switch.slave_end import AutoSwitchFollower, MastersLog
from rocketlake.replication.epochs.kept import FILE_NAME, KeptEpochs
from rocketlake.replication.epochs.marks import MarkAt, mark_at
from rocketlake.replication.epochs.promotion import Promotion
from rocketlake.replication.epochs.truncation import Truncation
from rocketlake.replication.follower import Follower
from rocketlake.replication.leader import Leader
from rocketlake.replication.settings import StreamSettings
from rocketlake.store.config import StoreConfig
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

ROOT = Path("/store")
PORT = 10912


class Reports:
    """A rule of acks that confirms what all replicas that ever reported have."""

    def __init__(self, store: MessageStore) -> None:
        self.ends: dict[str, PhysicalOffset] = {}
        self.lost: list[str] = []
        self._store = store

    def reported(self, name: str, end: PhysicalOffset) -> None:
        self.ends[name] = end
        self._store.durability.advance(Stage.CONFIRMED, min(self.ends.values()))

    def left(self, name: str) -> None:
        self.lost.append(name)

    def look(self, _log_end: PhysicalOffset) -> None:
        """Nothing is late here."""


class Replica:
    """One replica; `master` is the address it follows."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        broker_id: int,
        *,
        host: str,
        port: int = PORT,
        root: Path = ROOT,
        files: Files | None = None,
        workers: Callable[[str], Worker] = InlineWorker,
        file_bytes: int = 4096,
        reports_flushed: bool = False,
        **settings: Any,
    ) -> None:
        """`settings`: more of the store's."""
        self.clock, self.broker_id, self.host = clock, broker_id, host
        self.files = files or MemoryFiles(clock=clock)
        config = StoreConfig(
            commit_log_file_bytes=file_bytes,
            consume_queue_file_bytes=2000,
            index_slots=11,
            index_entries=100,
            **settings,
        )
        self.store = MessageStore(root, config, files=self.files, clock=clock, workers=workers)
        self.store.durability.demand(Demands(reads=(Stage.CONFIRMED,)))
        self.epochs = KeptEpochs(root / FILE_NAME, self.files, workers("epochs"))
        self.reports = Reports(self.store)
        self.master = ""
        self.least_epoch = -1
        self.is_learner = False
        self.masters_mark: MarkAt | None = None
        self.admission: Callable[[], Awaitable[MastersLog | None]] | None = None
        settings = StreamSettings(batch_bytes=3000, heartbeat_seconds=0.5, reports_flushed=reports_flushed)
        says = LeaderSays(
            lambda: self.epochs.history,
            lambda: self.store.log.max_offset,
            lambda: PhysicalOffset(self.store.durability.confirmed.value),
        )
        self.leader = Leader(
            self.store,
            settings,
            clock,
            network,
            host=host,
            port=port,
            dialect=lambda _host: AutoSwitchLeader(says),
            rule=self.reports,
        )
        self.follower = Follower(
            self.store, settings, clock, network, master=lambda: self.master, dialect=self._follower_end
        )

    def _follower_end(self) -> AutoSwitchFollower:
        return AutoSwitchFollower(
            self.store,
            self.epochs,
            self.broker_id,
            least_epoch=lambda: self.least_epoch,
            is_learner=self.is_learner,
            masters_mark=self.masters_mark,
            admission=self.admission,
        )

    async def start(self) -> None:
        await self.store.start()
        self.epochs.load()
        await Truncation(self.store, self.epochs).fit()
        await self.leader.start()

    async def stop(self) -> None:
        await self.follower.stop()
        await self.leader.stop()
        await self.store.stop()

    async def lead(self, epoch: int) -> None:
        await self.follower.stop()
        await Promotion(self.store, self.epochs, self.clock).become_master(epoch)
        self.leader.lead()

    async def follow(self, address: str) -> None:
        self.leader.follow()
        await self.follower.stop()
        self.master = address
        await self.follower.start()

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            assert self.store.put(PutMessage("T", 0, body)).status.is_stored

    @property
    def end(self) -> PhysicalOffset:
        return self.store.max_physical_offset

    @property
    def log(self) -> bytes:
        views = self.store.log_views(self.store.min_physical_offset)
        size = self.store.log.file_size
        return b"".join(bytes(view).ljust(size, b"\0") for _offset, view in views)

    @property
    def confirmed(self) -> int:
        return self.store.durability.confirmed.value


class EpochGroup:
    """Replicas on hosts "a", "b", "c", with the broker ids 1, 2, 3."""

    def __init__(self, count: int = 3) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.replicas = [
            Replica(self.clock, self.net.host(host), broker_id, host=host)
            for broker_id, host in zip(range(1, count + 1), "abc", strict=False)
        ]
        for replica in self.replicas:
            replica.masters_mark = self._marks_for(replica)

    def _marks_for(self, slave: Replica) -> MarkAt:
        """Asks the master that this replica follows."""

        async def mark(offset: PhysicalOffset) -> str:
            (master,) = [each for each in self.replicas if slave.master == f"{each.host}:{PORT}"]
            return mark_at(master.store.log, offset)

        return mark

    async def start(self) -> None:
        for replica in self.replicas:
            await replica.start()

    async def stop(self) -> None:
        for replica in self.replicas:
            await replica.stop()

    async def elect(self, master: Replica, epoch: int, *followers: Replica) -> None:
        """Make it the master; these follow it now."""
        await master.lead(epoch)
        for replica in followers:
            await replica.follow(f"{master.host}:{PORT}")
        await self.clock.run_for(200)
