"""The broker as a whole: builds its parts, starts and stops them in order.

Owns        which part gets which, the order of start and stop, the listeners.
Must not know   what any part does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.files import Files, PosixFiles
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import ThreadWorker, Worker
from rocketlake.broker.client_sweep import ClientSweep
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.dispatch_table import Processors, dispatcher_rows
from rocketlake.broker.flow_control import FlowControl
from rocketlake.broker.groups.consumers import ConsumerTable
from rocketlake.broker.groups.producers import ProducerTable
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.intake import Intake
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.outbound import Identity, Outbound
from rocketlake.broker.processors.client import Client
from rocketlake.broker.processors.lock import Lock
from rocketlake.broker.processors.offset import Offset
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.processors.query import Query
from rocketlake.broker.processors.send import Send
from rocketlake.broker.processors.send_back import SendBack
from rocketlake.broker.push import Push
from rocketlake.broker.queue_locks import QueueLocks
from rocketlake.broker.registration import Registration
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.table_saver import TableSaver
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.builtin import builtin_topics
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.model.topic import DELAY_TOPIC
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.limits import NetLimits
from rocketlake.net.local_address import local_address
from rocketlake.net.network import Network
from rocketlake.net.server import Server
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore

__all__ = ["Broker"]

_log = get_logger(__name__)

_WILDCARDS = ("", "0.0.0.0", "::")


class Broker:
    """One broker. Start once, stop once."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        limits: NetLimits | None = None,
        make_worker: Callable[[str], Worker] = ThreadWorker,
    ) -> None:
        """`network` and `make_worker` are seams: tests put a network in memory and hand-run workers there."""
        files, clock = files or PosixFiles(), clock or SystemClock()
        self.config = LiveConfig(config)
        root = config.store_folder
        folder = root / "config"
        self._host = config.advertised_host or (
            local_address() if config.listen_host in _WILDCARDS else config.listen_host
        )

        levels = DelayLevels(store_config.message_delay_level)
        self.store = MessageStore(root, store_config, files=files, clock=clock)
        self.topics = TopicTable(
            folder / "topics.json",
            files,
            clock,
            builtin_topics(
                config.cluster_name,
                config.broker_name,
                template_queues=config.default_topic_queues,
                auto_create=config.auto_create_topic,
                cluster_topic=config.cluster_topic,
                broker_topic=config.broker_topic,
                delay_levels=levels.highest,
                trace_topic=config.trace_topic if config.trace_topic_enabled else None,
            ),
        )
        self.groups = GroupTable(folder / "subscriptionGroup.json", files, clock, auto_create=config.auto_create_group)
        self.offsets = OffsetTable(folder / "consumerOffset.json", files, clock, config.offset_version_step)
        self.delays = DelayProgress(
            folder / "delayOffset.json",
            files,
            clock,
            lambda: self.store.flushed_offset,
            config.delay_version_step,
        )
        self.saver = TableSaver(
            (self.topics, self.groups, self.offsets, self.delays),
            files,
            clock,
            make_worker("table-saver"),
            config.offset_save_interval_ms,
        )
        self.stats = BrokerStats(config.cluster_name, clock)
        self.push = Push(notify_changes=config.notify_consumer_changes)
        self.consumers = ConsumerTable(self.push, clock)
        self.producers = ProducerTable(clock)
        self.queue_locks = QueueLocks(clock)
        self.auto_create = AutoCreate(self.topics, self.saver, self.config)
        self.intake = Intake(self.store, levels, self.stats)
        self.hold = PullHold(clock, config.held_pulls_max)
        self.schedule = DelaySchedule(self.store, levels, self.delays, clock)
        self._sweep = ClientSweep(self.consumers, self.producers, self.queue_locks, clock)

        self._net = NetClient(limits, clock, network=network)
        self._dispatcher = Dispatcher(dispatcher_rows(self._processors(clock), config.admin_access))
        self._dispatcher.before.append(
            FlowControl(self.config, self._dispatcher.lanes, lambda: self.intake.waiting, clock).check
        )
        self._server = Server(
            self._dispatcher,
            host=config.listen_host,
            port=config.listen_port,
            limits=limits,
            clock=clock,
            network=network,
        )
        self._fast_server = None
        if config.fast_port is not None:
            self._fast_server = Server(
                self._dispatcher,
                host=config.listen_host,
                port=config.fast_port,
                limits=limits,
                clock=clock,
                network=network,
            )
        for server in self._servers:
            server.on_link_lost += [self.consumers.close_link, self.producers.close_link]
        self.registration = Registration(self.config, self.topics, Outbound(self._net, self._identity), clock)
        self.store.on_arrival = self._message_arrived

    def _processors(self, clock: Clock) -> Processors:
        unique_keys = UniqueKeyMaker(self._host, os.getpid(), clock.now_ms)
        return Processors(
            send=Send(
                self.config,
                self.intake,
                self.topics,
                self.auto_create,
                self.groups,
                self.queue_locks,
                unique_keys,
                clock,
                lambda: self.store_address,
            ),
            send_back=SendBack(
                self.config,
                self.store,
                self.intake,
                self.auto_create,
                self.groups,
                self.stats,
                lambda: self.store_address,
            ),
            pull=Pull(
                self.config,
                self.store,
                self.topics,
                self.groups,
                self.consumers,
                self.offsets,
                self.hold,
                self.stats,
            ),
            query=Query(self.store, self.topics),
            offset=Offset(self.store, self.topics, self.groups, self.offsets),
            client=Client(self.consumers, self.producers, self.groups, self.topics, self.auto_create),
            lock=Lock(self.queue_locks),
        )

    @property
    def address(self) -> str:
        """`host:port` under which clients find this broker."""
        return f"{self._host}:{self._server.port}"

    @property
    def store_address(self) -> tuple[str, int]:
        """The same as (host, port)."""
        return self._host, self._server.port

    @property
    def fast_address(self) -> str | None:
        """`host:port` of the fast listener, if there is one."""
        return None if self._fast_server is None else f"{self._host}:{self._fast_server.port}"

    async def start(self) -> None:
        """Load, recover, listen, register. StoreError or UsageError say what is in the way; nothing is left open then."""
        try:
            for table in (self.topics, self.groups, self.offsets, self.delays):
                table.load()
            await self.store.start()
            await self.saver.start()
            await self.stats.start()
            await self.push.start()
            await self._sweep.start()
            await self.hold.start()
            await self.schedule.start()
            for server in self._servers:
                await server.start()
            await self.registration.start()
        except BaseException:
            await self.stop()
            raise
        _log.info("broker %s listens on %s", self.config.now.broker_name, self.address)

    async def stop(self) -> None:
        """Turn clients away, answer what is held, then close the files. What was acknowledged stays."""
        await self.registration.stop()
        await self.hold.stop()
        for server in self._servers:
            await server.stop()
        await self._net.close()
        await self.schedule.stop()
        await self._sweep.stop()
        await self.push.stop()
        await self.stats.stop()
        try:
            await self.store.stop()
        finally:
            # After the store: a delivered message counts as delivered once its copy is on disk.
            await self.saver.stop()

    @property
    def _servers(self) -> list[Server]:
        return [self._server] if self._fast_server is None else [self._server, self._fast_server]

    def _identity(self) -> Identity:
        config = self.config.now
        host, port = self.store_address
        return Identity(
            config.cluster_name, config.broker_name, config.broker_id, f"{host}:{port}", f"{host}:{port + 1}"
        )

    def _message_arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int, store_ms: int) -> None:
        self.hold.message_arrived(topic, queue_id, max_offset, tag_code)
        if topic == DELAY_TOPIC:
            self.schedule.message_parked(queue_id)
