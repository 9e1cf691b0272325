"""The broker as a whole: builds its parts, starts and stops them in order.

Owns        which part gets which, the order of start and stop, the listeners.
Must not know   what any part does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.health import Health
from rocketlake.base.logs import get_logger
from rocketlake.base.pure_import import has_kernel
from rocketlake.base.service import Service, stop_each
from rocketlake.base.settings.config_file import setting_texts
from rocketlake.base.worker import ThreadWorker, Worker
from rocketlake.broker.clients.client_sweep import ClientSweep
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.cluster.cluster_queues import ClusterQueues
from rocketlake.broker.cluster.outbound import Identity, Outbound
from rocketlake.broker.cluster.registration import Registration
from rocketlake.broker.cold_rest import ColdRest
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.dispatch_table import Processors, dispatcher_rows
from rocketlake.broker.flow_control import FlowControl
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.large_batches import LargeBatches
from rocketlake.broker.intake.sequenced_puts import SequencedPuts
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.offsets.beyond_end import lower_to_ends
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.offsets.unread import UnreadDeletions
from rocketlake.broker.processors.admin_broker import AdminBroker
from rocketlake.broker.processors.admin_group import AdminGroup
from rocketlake.broker.processors.admin_offset import AdminOffset
from rocketlake.broker.processors.admin_position import AdminPosition
from rocketlake.broker.processors.admin_store import AdminStore
from rocketlake.broker.processors.admin_topic import AdminTopic
from rocketlake.broker.processors.assignment import Assignment
from rocketlake.broker.processors.client import Client
from rocketlake.broker.processors.lock import Lock
from rocketlake.broker.processors.offset import Offset
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.processors.query import Query
from rocketlake.broker.processors.send import Send
from rocketlake.broker.processors.send_back import SendBack
from rocketlake.broker.processors.transaction import Transaction
from rocketlake.broker.producer_sequences.rebuild import recover_sequences
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.broker.reads.progress import ReadProgress
from rocketlake.broker.reads.queue_reads import QueueReads
from rocketlake.broker.reads.waiting_pulls import WaitingPulls
from rocketlake.broker.rights.read import ReadRights
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.builtin import builtin_topics
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction.check import TransactionCheck
from rocketlake.broker.transaction.check_back import CheckBack
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.codec.host import encode_host
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.model.topic import DELAY_TOPIC, TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.limits import NetLimits
from rocketlake.net.local_address import local_address
from rocketlake.net.network import Network
from rocketlake.net.request import FrameAsker
from rocketlake.net.server import Server
from rocketlake.net.turns import Turns
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.protocol.limits import WireLimits
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.slow_work import Progress

__all__ = ["Broker"]

_log = get_logger(__name__)

_RUN_KERNELS = ("rocketlake.broker.hot.plain_send", "rocketlake.broker.hot.plain_pull", "rocketlake.store.plain_fetch")

_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class Broker(Service):
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
        workers: Callable[[str], Worker] = ThreadWorker,
    ) -> None:
        """`network` and `workers` are seams, as files and clock are: tests put a network in memory and no threads."""
        super().__init__(f"broker {config.broker_name}", clock)
        self.health = Health(self._clock)
        self.config = LiveConfig(config)
        self._host = config.advertised_host or (
            local_address() if config.listen_host in _EVERY_ADDRESS else config.listen_host
        )
        self._files = files = files or PosixFiles()
        self._levels = DelayLevels(store_config.message_delay_level)
        self.store = MessageStore(config.store_folder, store_config, files=files, clock=self._clock, workers=workers)
        self._build_tables(config, files, workers)
        self._build_services(config, limits, network)
        self._build_servers(config, limits, network)
        self.store.on_arrival = self._message_arrived
        self.store.is_awaited = self._is_awaited
        self.store.retention.before_drop = UnreadDeletions(self.offsets, self.store, self._clock).look
        self.adopt(self.store, self.saver, *self._background(), self.registration, self._net, *self._servers)

    def _background(self) -> list[Service]:
        """What runs beside the requests, in the order of the start."""
        return [
            self.stats,
            self.push,
            self._assignment,
            self._sweep,
            self.hold,
            self.schedule,
            self._transaction_ops,
            self.transaction_check,
        ]

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _build_tables(self, config: BrokerConfig, files: Files, workers: Callable[[str], Worker]) -> None:
        """What is saved to files, and who saves it."""
        folder, clock = config.store_folder / "config", self._clock
        self.topics = TopicTable(
            folder / "topics.json",
            files,
            clock,
            _builtin_topics(config, self._levels),
            topics_max=config.topics_max,
            queues_max=config.queues_max,
        )
        self.groups = GroupTable(
            folder / "subscriptionGroup.json",
            files,
            clock,
            auto_create=config.auto_create_group,
            groups_max=config.groups_max,
        )
        self.offsets = OffsetTable(folder / "consumerOffset.json", files, clock, config.offset_version_step)
        self.delays = DelayProgress(
            folder / "delayOffset.json",
            files,
            clock,
            lambda: self.store.flushed_offset,
            config.delay_version_step,
        )
        self.sequences = ProducerSequences(
            folder / "producerSequences.json",
            files,
            clock,
            lambda: LogEnds(self.store.max_physical_offset, self.store.flushed_offset),
            producers_max=config.producer_sequences_max,
            keep_ms=config.producer_sequence_keep_ms,
        )
        self._tables = (self.topics, self.groups, self.offsets, self.delays, self.sequences)
        self.saver = TableSaver(self._tables, files, clock, workers("table-saver"), config.offset_save_interval_ms)

    def _build_services(self, config: BrokerConfig, limits: NetLimits | None, network: Network | None) -> None:
        """What lives in memory and what runs in the background."""
        clock = self._clock
        self.stats = BrokerStats(config.cluster_name, clock)
        limits = limits or NetLimits()
        self._turns = Turns(clock, limits.turn_seconds, limits.brief_turn_seconds)
        self.push = Push(self._turns, clock, notify_changes=config.notify_consumer_changes)
        self.consumers = ConsumerTable(self.push, clock)
        self.producers = ProducerTable(clock)
        self.queue_locks = QueueLocks(clock)
        self.auto_create = AutoCreate(self.topics, self.saver, self.config)
        self.intake = Intake(self.store, self._levels, self.stats)
        self.sequenced = SequencedPuts(self.intake, self.sequences, self.saver, lambda: self.store.max_physical_offset)
        self.hold = PullHold(clock, self._turns, config.held_pulls_max)
        cold_rest = ColdRest(self._turns, lambda: self.stats.put_times, clock)
        self.store.residency.rest = cold_rest
        self._turns.is_brief = lambda: self.store.residency.waiting > 0 or cold_rest.is_recent
        self.readable_queue = ReadableQueue(self.topics, clock)
        self.schedule = DelaySchedule(
            self.store, self._levels, self.delays, clock, self.readable_queue, self.stats.count_put
        )
        self._transaction_progress = TransactionProgress(self.store, self.offsets)
        self._half_ledger = HalfLedger()
        self._transaction_ops = TransactionOps(
            self.store, self._half_ledger, self.config, clock, lambda: encode_host(*self._store_address())
        )
        self.transaction_check = TransactionCheck(
            self.config,
            self.store,
            self.topics,
            self._half_ledger,
            self._transaction_ops,
            self._transaction_progress,
            CheckBack(self.producers, self.push, lambda: self.config.now.broker_name, clock),
            clock,
        )
        self._sweep = ClientSweep(self.consumers, self.producers, self.queue_locks, clock)
        self._net = NetClient(limits, clock, network=network)
        self._outbound = Outbound(self._net, self._identity)
        self.registration = Registration(self.config, self.topics, self._outbound, clock)
        cluster_queues = ClusterQueues(self.config, self.topics, self._outbound)
        self._assignment = Assignment(self.consumers, cluster_queues.find)

    def _build_servers(self, config: BrokerConfig, limits: NetLimits | None, network: Network | None) -> None:
        """The listeners, both with the same table."""
        processors = self._processors()
        self._dispatcher = Dispatcher(
            dispatcher_rows(processors, config.admin_access, config.request_body_bytes_max, self._turns, self._clock)
        )
        flow_control = FlowControl(
            self.config,
            self._dispatcher.lanes,
            lambda: self.intake.waiting,
            lambda: self.intake.slow_append,
            self._clock,
        )
        self._dispatcher.before.append(flow_control.check)
        self._serve_runs(processors, (limits or NetLimits()).wire, flow_control)
        ports = [config.listen_port] if config.fast_port is None else [config.listen_port, config.fast_port]
        unfinished = UnfinishedBytes(config.unfinished_bytes_max)
        self._servers = [
            Server(
                self._dispatcher,
                host=config.listen_host,
                port=port,
                limits=limits,
                clock=self._clock,
                network=network,
                turns=self._turns,
                unfinished=unfinished,
            )
            for port in ports
        ]
        for server in self._servers:
            server.on_link_lost += [self.consumers.close_link, self.producers.close_link]

    def _serve_runs(self, processors: Processors, wire: WireLimits, flow_control: FlowControl) -> None:
        """Have plain sends and pulls served by the chunk, if the kernels for it were compiled."""
        if not all(map(has_kernel, _RUN_KERNELS)):
            _log.info("the kernels of broker/ are not compiled: requests are served one by one, which takes more CPU")
            return
        from rocketlake.broker.hot.pull_runs import PullRuns
        from rocketlake.broker.hot.send_runs import SendRuns

        sends = SendRuns(
            self.config,
            processors.send,
            self.intake,
            self.sequenced,
            wire,
            lambda: self.store.config.body_bytes_max,
            lambda: self.store.max_physical_offset,
        )
        pulls = PullRuns(processors.pull, self.store, wire, self._clock)

        def serve(link: FrameAsker, ready: bytes, position: int, turn_end: float) -> int:
            end = sends.serve(link, ready, position)
            return end if end > position else pulls.serve(link, ready, position, turn_end)

        self.topics.on_change.append(lambda _name: sends.forget_topics())
        # By name, not all that are there: a gate that nobody thought of here must see every request, so runs end.
        self._dispatcher.serve_runs(serve, [flow_control.check])

    def _processors(self) -> Processors:
        config, store, clock = self.config, self.store, self._clock
        topics, groups, offsets = self.topics, self.groups, self.offsets
        consumers, producers, stats = self.consumers, self.producers, self.stats
        intake, auto_create = self.intake, self.auto_create
        unique_keys = UniqueKeyMaker(self._host, os.getpid(), clock.now_ms)
        access = config.now.admin_access
        return Processors(
            send=Send(
                config,
                intake,
                self.sequenced,
                topics,
                auto_create,
                groups,
                self.queue_locks,
                LargeBatches(config, self._turns, clock),
                unique_keys,
                clock,
                self._store_address,
            ),
            send_back=SendBack(config, store, intake, auto_create, groups, stats, self._store_address),
            transaction=Transaction(
                config, store, intake, topics, self.readable_queue, self._half_ledger, self._transaction_ops, clock
            ),
            pull=Pull(
                ReadRights(config, topics, groups, consumers),
                QueueReads(store, offsets, clock),
                ReadProgress(store, offsets, stats, clock),
                WaitingPulls(config, store, self.hold, clock),
            ),
            query=Query(store, topics),
            offset=Offset(store, topics, groups, consumers, offsets, access),
            client=Client(config, consumers, producers, groups, topics, auto_create, clock),
            lock=Lock(self.queue_locks),
            assignment=self._assignment,
            admin_topic=AdminTopic(
                topics=topics,
                offsets=offsets,
                sequences=self.sequences,
                consumers=consumers,
                store=store,
                hold=self.hold,
                stats=stats,
                saver=self.saver,
                registration=self.registration,
                identity=self._identity,
                access=access,
            ),
            admin_group=AdminGroup(
                groups=groups,
                offsets=offsets,
                consumers=consumers,
                producers=producers,
                stats=stats,
                saver=self.saver,
                push=self.push,
                record=store.read_record,
                broker_name=lambda: config.now.broker_name,
                access=access,
            ),
            admin_store=AdminStore(store, topics, consumers),
            admin_offset=AdminOffset(
                topics=topics,
                groups=groups,
                offsets=offsets,
                consumers=consumers,
                store=store,
                hold=self.hold,
                stats=stats,
                identity=self._identity,
                clock=clock,
            ),
            admin_position=AdminPosition(consumers, offsets, store, self.push),
            admin_broker=AdminBroker(
                config=config,
                store_settings=lambda: setting_texts(store.config),
                topics=topics,
                store=store,
                stats=stats,
                delays=self.delays,
                schedule=self.schedule,
                registration=self.registration,
                waiting_sends=lambda: intake.waiting,
                held_pulls=lambda: len(self.hold),
                disk_room=self._disk_room,
                clock=clock,
            ),
        )

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load, recover, listen, register. A RocketLakeError says what is in the way; nothing is open then."""
        await super().start()
        try:
            await self.store.start()  # first: it holds the lock on the folder
            for table in self._tables:
                table.load()
            self._recover_sequences()
            self.store.when_complete(lambda: lower_to_ends(self.offsets, self.store.max_offset))
            await self.saver.start()
            for service in self._background():
                await service.start()
            for server in self._servers:
                await server.start()
            await self.registration.start()
        except BaseException:
            await self.stop()
            raise
        self._say_where()

    async def stop(self) -> None:
        """Turn clients away, answer what is held, then close the files. What was acknowledged stays.

        A part that cannot be stopped is logged, and all behind it are stopped: the store above all.
        """
        rest = [part for part in reversed(self._background()) if part is not self.hold]
        before = (self.registration, self.hold, *self._servers, self._net, *rest)
        # After the store: a delayed or half message counts as dealt with once what became of it is on disk.
        after = (self.transaction_check.pass_ended, self.saver.stop)
        await stop_each(*[part.stop for part in before], self.store.stop, *after)
        await super().stop()

    def _recover_sequences(self) -> None:
        """Have the table of producer sequences know what the log holds."""
        table, store = self.sequences, self.store
        start = table.log_offset
        if start is not None:
            if start > store.max_physical_offset:
                _log.warning("the log ends before what %s counts up to; it is read from its start", table.path)
                table.forget_all()
                start = 0
            deleted = store.deletions.topics
            table.forget_deleted(deleted)
            progress = Progress(self._clock)

            def note(position: int) -> None:
                if progress.is_due():
                    _log.info(
                        "start: the log is read for producer sequences, from %d; now at %d of %d (%d s)",
                        start,
                        position,
                        store.max_physical_offset,
                        progress.seconds,
                    )

            found = recover_sequences(table, store.log_views(start), deleted, note)
            if progress.was_due:
                _log.info("start: producer sequences are known, %d messages were counted", found)
        table.opened()

    # -- who and where -------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """`host:port` under which clients find this broker."""
        return "{}:{}".format(*self._store_address())

    @property
    def fast_address(self) -> str | None:
        """`host:port` of the fast listener, if there is one."""
        return f"{self._host}:{self._servers[1].port}" if len(self._servers) > 1 else None

    def _say_where(self) -> None:
        config = self.config.now
        _log.info("broker %s listens on %s:%d", config.broker_name, config.listen_host, self._servers[0].port)
        if config.listen_host.startswith("127.") and not self._host.startswith("127."):
            _log.warning(
                "clients are told to come to %s (brokerIP1), but the broker listens to this machine only:"
                " set bindAddress=0.0.0.0",
                self.address,
            )

    def _disk_room(self) -> tuple[int, int]:
        """(what we can have, what is free of it) bytes of the store's disk; 0 if it does not say."""
        try:
            return self._files.disk_usage(self.config.now.store_folder)
        except OSError:
            return 0, 0

    def _store_address(self) -> tuple[str, int]:
        return self._host, self._servers[0].port

    def _identity(self) -> Identity:
        config = self.config.now
        host, port = self._store_address()
        # Slaves would look for us one port higher, as in RocketMQ; nobody listens there before replication comes.
        return Identity(
            config.cluster_name, config.broker_name, config.broker_id, f"{host}:{port}", f"{host}:{port + 1}"
        )

    def _is_awaited(self, topic: str, queue_id: int) -> bool:
        return topic == DELAY_TOPIC or self.hold.waits(topic, queue_id)

    def _message_arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int, _store_ms: int) -> None:
        self.hold.message_arrived(topic, queue_id, max_offset, tag_code)
        if topic == DELAY_TOPIC:
            self.schedule.message_parked(queue_id)


def _builtin_topics(config: BrokerConfig, levels: DelayLevels) -> list[TopicConfig]:
    return builtin_topics(
        config.cluster_name,
        config.broker_name,
        template_queues=config.default_topic_queues,
        auto_create=config.auto_create_topic,
        cluster_topic=config.cluster_topic,
        broker_topic=config.broker_topic,
        delay_levels=levels.highest,
        trace_topic=config.trace_topic if config.trace_topic_enabled else None,
    )
