"""The parts that the rooms of reads and sends stand on, all real, with a disk in memory and a clock moved by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay.parking import Parking, TimerRules
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.rights.read import Admission, ReadRights
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.record import decode_records
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Handler, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore

CLIENT = ("192.168.7.7", 51_000)
BROKER = ("10.0.0.2", 10_911)
_CODE = 1


class RoomWorld:
    """Topic T with four queues. `flush` and `reads` are run by the test."""

    def __init__(self, flush_disk_type: str = "ASYNC_FLUSH", **settings: Any) -> None:
        self.clock = clock = ManualClock(1_000_000)
        self.plan = FaultPlan()
        self.files = FaultyFiles(MemoryFiles(clock=clock), self.plan)
        self.flush, self.reads = HandWorker("flush"), HandWorker("reads")
        self.config = LiveConfig(BrokerConfig(broker_name="b", cluster_name="C", region_id="R", **settings))
        store = StoreConfig(
            commit_log_file_bytes=256 * 1024, index_slots=10, index_entries=100, flush_disk_type=flush_disk_type
        )
        self.store = MessageStore(Path("/s"), store, files=self.files, clock=clock, workers=self._worker)
        self.topics = TopicTable(Path("/t/topics.json"), self.files, clock)
        self.groups = GroupTable(Path("/t/groups.json"), self.files, clock)
        self.offsets = OffsetTable(Path("/t/offsets.json"), self.files, clock)
        self.saver = TableSaver(self.files, clock, InlineWorker("saver"))
        self.stats = BrokerStats("C", clock)
        self.turns = Turns(clock, 0.02)
        self.intake = Intake(self.store, Parking(DelayLevels(), TimerRules(), clock), self.stats)
        self.queue_locks = QueueLocks(clock)
        self.send_rights = SendRights(self.config, self.topics, self.groups, self.queue_locks, clock)
        consumers = ConsumerTable(Push(self.turns, clock), clock)
        self._read_rights = ReadRights(self.config, self.topics, self.groups, consumers)
        self._handler: Handler = lambda _request: Reply()
        net = MemoryNet(clock=clock)
        dispatcher = Dispatcher([Row(_CODE, self._serve, ANYBODY)])
        self.server = Server(dispatcher, host=BROKER[0], clock=clock, network=net.host(BROKER[0]))
        self.client = NetClient(clock=clock, network=net.host(CLIENT[0]))

    def _worker(self, name: str) -> Worker:
        return {"store-flush": self.flush, "store-reads": self.reads}.get(name) or InlineWorker(name)

    def _serve(self, request: Request) -> Reply | Held:
        return self._handler(request)

    async def __aenter__(self) -> RoomWorld:
        await self.store.start()
        await self.saver.start()
        await self.server.start()
        await self.client.start()
        self.topics.put(TopicConfig("T", read_queues=4, write_queues=4))
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.plan.clear()
        await self.client.stop()
        await self.server.stop(0)
        await self.saver.stop()
        await self.store.stop()

    async def ask(self, handler: Handler, body: bytes = b"") -> asyncio.Task[Command]:
        """A request of the client, which `handler` serves."""
        self._handler = handler
        task = asyncio.ensure_future(self.client.invoke(self.server.address, Command.request(_CODE, None, body), 1e9))
        await self.clock.settle()
        return task

    def admit(self, pull: PullHeader) -> Admission:
        return self._read_rights.admit(RequestCode.PULL_MESSAGE, pull)

    def stored(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(topic, queue_id, 0, 100, 1 << 20).slices))
