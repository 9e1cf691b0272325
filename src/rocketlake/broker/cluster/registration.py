"""Tells name servers about this broker.

Owns        when a name server is told, and of which topics.
Must not know   requests of clients, links to name servers (outbound.py).

Rules (RocketMQ's BrokerController): every name server gets the whole table at start, then every 30 s (kept between 10
and 60 s). When a topic changes, every name server gets the changed topics at once, one by one. A name server that was
restarted does not know this broker and refuses single topics: it gets the whole table. Failures are logged, and the
next round tries again. Each name server gets one registration after the other, the newest last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.slices import in_slices
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.cluster.outbound import Outbound, Registered
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.topic import DataVersion, Perm, TopicConfig
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.register import RegisterBrokerBody
from rocketlake.protocol.bodies.topic import TopicEntry
from rocketlake.protocol.bodies.topic import TopicTable as TopicTableBody
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Registration"]

_log = get_logger(__name__)

_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 10_000, 60_000
_WITHOUT_MASTER_SECONDS = 1.0
"""A slave that knows no master asks again so soon: its master may have been registered a moment later."""
_ELECTED_PAUSES_SECONDS = (0.02, 0.1, 0.3, 0.6)
"""A name server refuses a new master, while the old one is linked, until its controller has heard of the new one."""
_REFUSED_SECONDS = 1.0
"""A master of a controller that a name server goes on to refuse tries again so soon: clients look for it there."""
_TOPICS_AT_ONCE = 100
"""Topics put into a registration in one turn of the loop: that takes some two milliseconds."""
_READ_WRITE = Perm.READ | Perm.WRITE


@dataclass(frozen=True, slots=True)
class _Everything:
    """The whole table as a body, with the version of the topics and the broker's permission that went into it."""

    state: tuple[DataVersion, int]
    data: bytes


class Registration(Service):
    """Keeps all name servers informed."""

    def __init__(
        self, config: LiveConfig, topics: TopicTable, outbound: Outbound, master: KnownMaster, clock: Clock
    ) -> None:
        """`master`: hears which master the name servers tell a slave."""
        super().__init__("registration", clock)
        self._master = master
        self._config = config
        self._topics = topics
        self._outbound = outbound
        self._changed: set[str] = set()
        self._waiting: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._red: set[str] = set()
        """Name servers that the last round did not reach."""
        self._refused: set[str] = set()
        """Those that still keep the place of an old master."""
        self._lines: dict[str, asyncio.Lock] = {}
        """One for each name server: a registration is made and sent before a newer one is made."""

    async def start(self) -> None:
        """Register everywhere once, then start to keep it up. A name server out of reach does not stop the start."""
        await super().start()
        await self.register()
        self._topics.on_change.append(self._note_change)
        self.every("every-interval", self._interval_seconds, self.register)
        self.keep("on-change", self._register_next)

    async def stop(self) -> None:
        """Unregister everywhere, so that clients turn away at once."""
        if self.is_running:
            await super().stop()
            try:
                await self._tell_all(self._outbound.unregister, "unregistered")
            finally:
                self._end_waiting()

    def when_registered(self, done: Callable[[], None]) -> None:
        """Call `done` when the changes made so far were sent to every name server, or could not be sent."""
        self._waiting.append(done)
        self._wake.set()

    async def register(self) -> None:
        """Send every name server the whole table now."""
        told = await self._everything()

        async def one(namesrv: str) -> None:
            async with self._line(namesrv):
                await self._register_all(namesrv, told)

        await self._tell_all(one, "registered")

    async def _register_changed(self, names: set[str]) -> None:
        if any(name not in self._topics for name in names):
            await self.register()  # a topic is gone, which only the whole table can tell
            return

        async def one(namesrv: str) -> None:
            async with self._line(namesrv):
                try:
                    await self._register_some(namesrv, names)
                except RemoteError:
                    await self._register_all(namesrv)

        await self._tell_all(one, "registered")

    def _line(self, namesrv: str) -> asyncio.Lock:
        return self._lines.setdefault(namesrv, asyncio.Lock())

    async def _register_some(self, namesrv: str, names: set[str]) -> None:
        """One topic a request. A registration of some topics only would make a name server that has
        deleteTopicWithBrokerRegistration=true forget all others. Name servers before 5.0 do not know this request."""
        config = self._config.now
        topics = self._masked(topic for name in sorted(names) if (topic := self._topics.get(name)) is not None)
        if config.single_topic_register:
            try:
                for topic in topics:
                    if topic.name not in self._topics:
                        continue  # deleted while the topic before it was sent
                    self._mark_ordered(await self._outbound.register_topic(namesrv, topic, config.register_timeout_ms))
                return
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
        await self._register(namesrv, await self._body(topics))

    async def _register_all(self, namesrv: str, told: _Everything | None = None) -> None:
        """Send the table in `told`. If a topic has changed since, make it anew: a deleted topic must not come back."""
        if told is None or told.state != self._state():
            told = await self._everything()
        await self._register(namesrv, told.data)

    async def _everything(self) -> _Everything:
        """The table as it is now. A topic that changes meanwhile gets a registration of its own behind this one."""
        return _Everything(self._state(), await self._body(list(self._topics.all())))

    def _state(self) -> tuple[DataVersion, int]:
        return self._topics.data_version, self._config.now.permission

    async def _register(self, namesrv: str, data: bytes) -> None:
        told = await self._told(namesrv, data)
        self._master.told(told.master_address, told.ha_address)
        self._mark_ordered(told.orders)

    async def _told(self, namesrv: str, data: bytes) -> Registered:
        """What the name server answers to a registration with these topics."""
        config = self._config.now
        self._refused.discard(namesrv)
        for pause in _ELECTED_PAUSES_SECONDS if config.controller_mode else ():
            try:
                return await self._outbound.register(namesrv, data, config.register_timeout_ms)
            except RemoteError as error:
                if error.code != ResponseCode.NO_PERMISSION or not self._master.role.is_master:
                    raise
            self._refused.add(namesrv)
            await self._clock.sleep(pause)
        told = await self._outbound.register(namesrv, data, config.register_timeout_ms)
        self._refused.discard(namesrv)
        return told

    def _interval_seconds(self) -> float:
        if not self._master.role.is_master and not self._master.address:
            return _WITHOUT_MASTER_SECONDS
        if self._refused:
            return _REFUSED_SECONDS
        return min(max(self._config.now.register_interval_ms, _INTERVAL_MS_MIN), _INTERVAL_MS_MAX) / 1000

    async def _register_next(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        names, self._changed = self._changed, set()
        waiting, self._waiting = self._waiting, []
        try:
            if names:
                await self._register_changed(names)
        finally:
            # Also after a failure, or when the broker stops: the waiters wait for an attempt, not for its success.
            call_each(waiting)

    def _note_change(self, name: str) -> None:
        self._changed.add(name)
        self._wake.set()

    def _end_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        call_each(waiting)

    async def _body(self, topics: list[TopicConfig]) -> bytes:
        """The body of these topics, made some at a time: ten thousand topics must not hold up the loop."""
        entries: dict[str, TopicEntry] = {}
        body = RegisterBrokerBody(topics=TopicTableBody.from_model(self._topics.data_version, []))
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            some = self._masked(topics[start : start + _TOPICS_AT_ONCE])
            entries.update((topic.name, TopicEntry.from_model(topic)) for topic in some)
            await asyncio.sleep(0)
        body.topics.topics = entries
        return b"".join(await in_slices(encoding(body)))

    def _masked(self, topics: Iterable[TopicConfig]) -> list[TopicConfig]:
        """The topics, each with no more permissions than the broker has."""
        permission = self._config.now.permission
        if permission & _READ_WRITE == _READ_WRITE:
            return list(topics)
        return [replace(topic, perm=topic.perm & permission) for topic in topics]

    def _mark_ordered(self, orders: Mapping[str, str]) -> None:
        """Mark the topics that a name server calls ordered. The mark is never taken back. A slave has its master's."""
        if not self._master.role.is_master:
            return
        for name in orders:
            topic = self._topics.get(name)
            if topic is not None and not topic.order:
                self._topics.put(replace(topic, order=True))

    async def _tell_all(self, tell: Callable[[str], Coroutine[Any, Any, None]], what: str) -> None:
        async def one(namesrv: str) -> None:
            reason = ""
            try:
                await tell(namesrv)
            except RocketLakeError as error:
                reason = f"not {what} with name server {namesrv}: {error}"
                _log.warning("%s", reason)
            except Exception as error:
                reason = f"not {what} with name server {namesrv}: {error!r}"
                _log.exception("%s", reason)
            if self.is_running:
                self._note(namesrv, reason)

        addresses = self._config.now.namesrv_addresses if self._master.role.is_known else ()
        for gone in self._red.difference(addresses):
            self._note(gone, "")
        await asyncio.gather(*(one(namesrv) for namesrv in addresses))

    def _note(self, namesrv: str, reason: str) -> None:
        if reason:
            self._red.add(namesrv)
        else:
            self._red.discard(namesrv)
        self.health.set(f"registration/{namesrv}", reason)
