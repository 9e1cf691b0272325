"""The parts of a broker that several wings stand on.

Owns        the store, the tables of topics, groups and offsets, and other shared parts; built once, never replaced.
Must not know   the wings, roles, requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rocketlake.auth.server_accounts import ServerAccounts
from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import Worker
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay.parking import Parking, TimerRules
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.late_log import LateLog
from rocketlake.broker.offsets.beyond_end import lower_to_ends
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.replicas.editions import Editions
from rocketlake.broker.replicas.kept import Kept
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.builtin import builtin_topics
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.topic import TopicConfig
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import Network
from rocketlake.net.turns import Turns
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore

__all__ = ["Ground", "Seams"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """The parts that a test replaces by hand-driven forms."""

    files: Files
    clock: Clock
    network: Network
    ha_network: Network
    """Of the stream of the log."""
    workers: Callable[[str], Worker]
    limits: NetLimits


class Ground:
    """The shared parts."""

    def __init__(
        self, config: BrokerConfig, store_config: StoreConfig, seams: Seams, *, host: str, port: Callable[[], int]
    ) -> None:
        """`host`, `port`: where clients find this broker."""
        files, clock = seams.files, seams.clock
        self.seams = seams
        self.clock = clock
        self.config = LiveConfig(config)
        self.accounts = ServerAccounts(config, self.table_path("accounts.json"), files)
        self.gate = AccessGate(
            lambda: self.config.now.admin_access,
            self.accounts.file,
            authorizes=config.authorization_enabled,
            believes_certificates=config.certificate_users,
            cluster=lambda: self.config.now.cluster_name,
        )
        self.role = Role(self.config, host, port)
        self.levels = DelayLevels(store_config.message_delay_level)
        self.store = MessageStore(config.store_folder, store_config, files=files, clock=clock, workers=seams.workers)
        self.turns = Turns(clock, seams.limits.turn_seconds, seams.limits.brief_turn_seconds)
        self.stats = BrokerStats(config.cluster_name, clock)
        self.topics = TopicTable(
            self.table_path("topics.json"),
            files,
            clock,
            _builtin_topics(config, self.levels),
            topics_max=config.topics_max,
            queues_max=config.queues_max,
            topic_queues_max=config.topic_queues_max,
        )
        accounts = self.accounts.file
        self.quotas = Quotas(self.topics, accounts.accounts if accounts is not None else None, clock)
        self.groups = GroupTable(
            self.table_path("subscriptionGroup.json"),
            files,
            clock,
            auto_create=config.auto_create_group,
            groups_max=config.groups_max,
        )
        self.offsets = OffsetTable(self.table_path("consumerOffset.json"), files, clock, config.offset_version_step)
        self.store.after_cut.append(lambda _end: lower_to_ends(self.offsets, self.store.next_offset))
        self.tables = (self.topics, self.groups, self.offsets)
        self.saver = TableSaver(files, clock, seams.workers("table-saver"), config.offset_save_interval_ms)
        self.saver.add(*self.tables)
        self.editions = Editions(clock, self.turns)
        self.kept = Kept(self.saver, self.editions)
        self.auto_create = AutoCreate(self.topics, self.kept, self.config)
        self.timer_rules = TimerRules(
            is_enabled=store_config.timer_enabled,
            precision_ms=store_config.timer_precision_ms,
            delay_ms_max=store_config.timer_delay_seconds_max * 1000,
            roll_ms=store_config.timer_roll_slots * store_config.timer_precision_ms,
        )
        self.intake = Intake(self.store, Parking(self.levels, self.timer_rules, clock), self.stats)
        self.cold_requests = ColdRequests(self.config, self.store, self.turns)
        self.late_log = LateLog(self.config, self.store, self.turns, clock)
        self.cold_requests.check_late = self.late_log.check
        self.intake.line = self.late_log.line.by_key
        self.readable_queue = ReadableQueue(self.topics, clock)

    def table_path(self, name: str) -> Path:
        """Where the table with this file name is saved."""
        return self.config.now.store_folder / "config" / name


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
        audit_topic=config.audit_topic_enabled,
    )
