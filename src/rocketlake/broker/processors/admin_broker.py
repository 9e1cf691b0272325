"""The broker itself, as administrators read it: figures, settings, delay levels.

Owns        the names of the figures, the code of a refused change.
Must not know   what a setting does and which may change (config.py), how a figure is counted.

Source: docs/internals/admin.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.java.json_text import to_text
from rocketlake.base.logs import get_logger, set_level
from rocketlake.base.settings.config_file import parse_properties, to_properties
from rocketlake.base.settings.live_settings import NotLive
from rocketlake.broker.clients.request_modes import RequestModes
from rocketlake.broker.cluster.registration import Registration
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.config import BrokerRole, LiveConfig
from rocketlake.broker.counters import BROKER_GET_NUMS, BROKER_PUT_NUMS
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.delay.timer import Timer
from rocketlake.broker.stats import BrokerStats, RatedCounter
from rocketlake.broker.stored_message import read_message
from rocketlake.broker.topics.table import TopicTable
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.stats import BrokerStats as BrokerStatsBody
from rocketlake.protocol.bodies.stats import BrokerStatsItem, KVTable
from rocketlake.protocol.headers.admin_broker import BrokerConfigReplyHeader, BrokerStatsHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import OUR_VERSION, version_name
from rocketlake.store.message_store import MessageStore

__all__ = ["AdminBroker"]

_log = get_logger(__name__)
_NO_RATE = "0.0 0.0 0.0"
_POOLS = ("send", "pull", "litePull", "query", "ack")
_NO_POOL = 2**31 - 1
"""Apache's figure for the free buffers of a write pool that is not used."""


class AdminBroker:
    """Runtime figures, statistics, settings, delay offsets."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        role: Role,
        store_settings: Callable[[], Mapping[str, str]],
        topics: TopicTable,
        store: MessageStore,
        stats: BrokerStats,
        request_modes: RequestModes,
        delays: DelayProgress,
        schedule: DelaySchedule,
        timer: Timer,
        registration: Registration,
        followed: Callable[[], str],
        waiting_sends: Callable[[], int],
        held_pulls: Callable[[], int],
        clock: Clock,
    ) -> None:
        """`store_settings`: the store's settings by Java name, as text. `followed`: the master, "" if none."""
        self._config = config
        self._role = role
        self._store_settings = store_settings
        self._topics = topics
        self._store = store
        self._stats = stats
        self._request_modes = request_modes
        self._delays = delays
        self._schedule = schedule
        self._timer = timer
        self._registration = registration
        self._followed = followed
        self._waiting_sends = waiting_sends
        self._held_pulls = held_pulls
        self._clock = clock

    def update_config(self, request: Request) -> Reply:
        """UPDATE_BROKER_CONFIG: change live settings, all or none. No file is written."""
        values = parse_properties(request.body.decode("utf-8", "replace"))
        permission = self._config.now.permission
        try:
            self._config.update(values)
        except NotLive as error:
            raise RemoteError(error.what, code=ResponseCode.NO_PERMISSION, hint=error.hint) from error
        set_level(self._config.now.log_level)
        _log.info("settings changed by %s: %s", request.address, values)
        if self._config.now.permission != permission:
            self._topics.new_version()
            self._registration.spawn("permission-changed", self._registration.register())
        return Reply()

    def get_config(self, _request: Request) -> Reply:
        """GET_BROKER_CONFIG: all settings of broker and store as a Java properties file, with the role of now."""
        values = {**self._config.to_values(), **self._store_settings(), **self._role_now()}
        version = DataVersionBody.from_model(self._topics.data_version).encode().decode()
        return Reply(header=BrokerConfigReplyHeader(version=version), body=to_properties(values).encode())

    def _role_now(self) -> dict[str, str]:
        configured = self._config.now.broker_role
        as_master = BrokerRole.ASYNC_MASTER if configured is BrokerRole.SLAVE else configured
        now = as_master if self._role.is_master else BrokerRole.SLAVE
        return {"brokerId": str(self._role.broker_id), "brokerRole": now.value}

    def delay_offsets(self, _request: Request) -> Reply:
        """GET_ALL_DELAY_OFFSET: the text of delayOffset.json."""
        return Reply(body=self._delays.to_text().encode())

    def timer_checkpoint(self, _request: Request) -> Reply:
        """GET_TIMER_CHECK_POINT: how far messages for a time are delivered, and put into the wheel."""
        return Reply(body=self._timer.progress.to_bytes())

    def request_modes(self, _request: Request) -> Reply:
        """GET_ALL_MESSAGE_REQUEST_MODE."""
        return Reply(body=to_text(self._request_modes.on_wire()))

    def stats(self, request: Request) -> Reply:
        """VIEW_BROKER_STATS_DATA."""
        header = request.header(BrokerStatsHeader)
        counter = self._stats.find(header.stats_name, header.stats_key)
        if counter is None:
            raise RemoteError(
                f"The stats <{header.stats_name}> <{header.stats_key}> not exist", code=ResponseCode.SYSTEM_ERROR
            )
        body = BrokerStatsBody(
            stats_minute=_item(counter.minute), stats_hour=_item(counter.hour), stats_day=_item(counter.day)
        )
        return Reply(body=body.encode())

    def runtime_info(self, _request: Request) -> Reply:
        """GET_BROKER_RUNTIME_INFO. Figures of parts that this broker lacks are 0: exporters expect the keys."""
        table = {
            "brokerVersionDesc": version_name(OUR_VERSION),
            "brokerVersion": str(OUR_VERSION),
            "brokerActive": "true",
            "roleNow": self._role.now,
            "followedMaster": self._followed(),
            "bootTimestamp": str(self._stats.started_ms),
            "runtime": _span_text(self._clock.now_ms() - self._stats.started_ms),
            "startAcceptSendRequestTimeStamp": str(self._config.now.start_accept_send_ms),
            **self._counts(),
            **self._store_figures(),
            **self._waiting_figures(),
            **self._timer.figures(),
            **dict.fromkeys(("pageCacheLockTimeMills", "dispatchMaxBuffer"), "0"),
        }
        for level, (next_offset, end) in self._schedule.waiting().items():
            table[f"scheduleMessageOffset_{level}"] = f"{next_offset},{end}"
        return Reply(body=KVTable(table=table).encode())

    def _counts(self) -> dict[str, str]:
        stats, cluster = self._stats, self._config.now.cluster_name
        put_rate = _three_rates(stats.find(BROKER_PUT_NUMS, cluster))
        get_rate = _three_rates(stats.find(BROKER_GET_NUMS, cluster))
        return {
            "putMessageTimesTotal": str(stats.put_times),
            "putMessageFailedTimes": str(stats.put_failures),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageAverageSize": str(stats.put_bytes / stats.put_times if stats.put_times else 0.0),
            "putMessageEntireTimeMax": str(math.ceil(stats.put_latency.max_ms)),
            "getMessageEntireTimeMax": "0",
            "putMessageDistributeTime": stats.put_latency.to_text(),
            "putLatency99": f"{stats.put_latency.percentile_ms(0.99):.2f}",
            "putLatency999": f"{stats.put_latency.percentile_ms(0.999):.2f}",
            "msgPutTotalYesterdayMorning": str(stats.put_mornings[0]),
            "msgPutTotalTodayMorning": str(stats.put_mornings[1]),
            "msgPutTotalTodayNow": str(stats.put_times),
            "msgGetTotalYesterdayMorning": str(stats.got_mornings[0]),
            "msgGetTotalTodayMorning": str(stats.got_mornings[1]),
            "msgGetTotalTodayNow": str(stats.got_messages),
            "putTps": put_rate,
            "getFoundTps": get_rate,
            "getMissTps": _NO_RATE,
            "getTotalTps": get_rate,
            "getTransferredTps": get_rate,
        }

    def _store_figures(self) -> dict[str, str]:
        store = self._store
        ratio = str(store.disk_ratio)
        total, free = store.retention.disk_room
        pool = store.log.pool
        return {
            "commitLogDiskRatio": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "dispatchBehindBytes": str(store.max_physical_offset - store.dispatched_offset),
            "commitLogDirCapacity": f"Total : {_size_text(total)}, Free : {_size_text(free)}.",
            "remainTransientStoreBufferNumbs": str(_NO_POOL if pool is None else pool.free),
            "remainHowManyDataToFlush": _size_text(store.max_physical_offset - store.flushed_offset),
            "earliestMessageTimeStamp": str(self._earliest_ms()),
        }

    def _earliest_ms(self) -> int:
        """When the first message in the log was stored, -1 if there is none that can be read."""
        message = read_message(self._store, self._store.min_physical_offset)
        return -1 if message is None else message.store_ms

    def _waiting_figures(self) -> dict[str, str]:
        figures = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
        config = self._config.now
        sizes = {"send": self._waiting_sends(), "pull": self._held_pulls()}
        capacities = {"send": config.waiting_sends_max, "pull": config.held_pulls_max}
        for pool in _POOLS:
            figures[f"{pool}ThreadPoolQueueSize"] = str(sizes.get(pool, 0))
            figures[f"{pool}ThreadPoolQueueCapacity"] = str(capacities.get(pool, 0))
            figures[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return figures


def _item(samples: deque[tuple[int, int, int]]) -> BrokerStatsItem:
    rate = RatedCounter.rate(samples)
    return BrokerStatsItem(sum=rate.total, tps=rate.per_second, avgpt=rate.per_call)


def _three_rates(counter: RatedCounter | None) -> str:
    """Per second over the last 10 s, the last minute, the last hour."""
    if counter is None:
        return _NO_RATE
    spans = (deque(list(counter.minute)[-2:]), counter.minute, counter.hour)
    return " ".join(str(round(RatedCounter.rate(samples).per_second, 3)) for samples in spans)


def _span_text(ms: int) -> str:
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size_text(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
