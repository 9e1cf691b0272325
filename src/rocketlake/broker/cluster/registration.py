"""Tells name servers about this broker.

Owns        when a name server is told, and of which topics.
Must not know   requests of clients, links to name servers (outbound.py).

Rules (RocketMQ's BrokerController): every name server gets the whole table at start, then every 30 s (kept between 10
and 60 s). When a topic changes, every name server gets the changed topics at once, one by one. A name server that was
restarted does not know this broker and refuses single topics: it gets the whole table. Failures are logged, and the
next round tries again.

Each name server is served by itself: it gets one registration after the other, the newest last, and one that is slow
or silent holds up no other. What comes up for it meanwhile is brought together in one round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from rocketlake.base.callbacks import call
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
_WAIT_SECONDS = 2.0
"""A start, a change of the role and a command wait so long for name servers; a silent one is told when it is back."""
_LOST_WAIT_SECONDS = 0.2
"""For one whose last registration failed."""
_TOPICS_AT_ONCE = 100
"""Topics put into a registration in one turn of the loop: that takes some two milliseconds."""
_READ_WRITE = Perm.READ | Perm.WRITE


class _Line:
    """What one name server is still to be told."""

    __slots__ = ("address", "changed", "is_lost", "is_refused", "task", "waiting", "whole")

    def __init__(self, address: str) -> None:
        self.address = address
        self.whole = False
        """It gets the whole table next."""
        self.changed: set[str] = set()
        """Topics for its next round."""
        self.waiting: list[asyncio.Future[None]] = []
        """Done behind the next round."""
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False
        """The last attempt to tell it something failed."""
        self.is_refused = False
        """It still keeps the place of an old master."""

    def forget(self) -> None:
        """Tell it nothing more."""
        self.whole, self.is_refused = False, False
        self.changed.clear()


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
        self._lines: dict[str, _Line] = {}
        """By name server; those that the settings do not name any more stay, with nothing to be told."""
        self._table: tuple[tuple[DataVersion, int], bytes] | None = None
        """The body of a whole registration, with the version of what went into it; kept while a line is at work."""
        self._making_table = asyncio.Lock()

    async def start(self) -> None:
        """Register everywhere once, then keep it up. A name server that is silent or out of reach stops no start."""
        await super().start()
        self._topics.on_change.append(self._note_change)  # first: topics are made as soon as the port is open
        await self.register()
        self.every("every-interval", self._interval_seconds, self.register)

    async def stop(self) -> None:
        """Unregister everywhere, so that clients turn away at once."""
        if self.is_running:
            self._topics.on_change.remove(self._note_change)
            await super().stop()
            for line in self._lines.values():
                line.forget()
                _end(line.waiting)
            await asyncio.gather(
                *(
                    self._try(address, self._outbound.unregister(address), "unregistered")
                    for address in self._addresses()
                )
            )

    @property
    def obstacle(self) -> str:
        """Why no name server knows this broker; "" if one does, or if none is to know it."""
        lines = [self._lines.get(address) for address in self._addresses()]
        if not lines or any(line is not None and not line.is_lost for line in lines):
            return ""
        return "no name server has taken a registration"

    def when_registered(self, done: Callable[[], None]) -> None:
        """Call `done` when the changes made so far were sent to every name server, or could not be sent.

        A silent name server is waited for two seconds, and a fifth of a second when that is known of it.
        """
        if self.is_running:
            waiting = self.spawn("told", self._until_told())
            waiting.add_done_callback(lambda _ended: call(done))  # also when the broker stops
        else:
            call(done)

    async def register(self) -> None:
        """Send every name server the whole table now; wait for them as long as `when_registered` does."""
        for line in self._lines_told():
            line.whole = True
        await self._until_told()

    def _note_change(self, name: str) -> None:
        for line in self._lines_told():
            line.changed.add(name)
            self._go_on(line)

    # -- one name server -----------------------------------------------------------------------------------------------

    def _addresses(self) -> tuple[str, ...]:
        """The name servers that are told, by the settings and the role of now."""
        return self._config.now.namesrv_addresses if self._master.role.is_known else ()

    def _lines_told(self) -> list[_Line]:
        told = self._addresses() if self.is_running else ()
        for address in self._lines.keys() - told:
            self._lines[address].forget()
            self._note(address, "")
        return [self._lines.setdefault(address, _Line(address)) for address in told]

    async def _until_told(self) -> None:
        """Wait until each name server had a round that started after this call."""
        waits = [
            self._clock.wait(self._go_on(line), _LOST_WAIT_SECONDS if line.is_lost else _WAIT_SECONDS)
            for line in self._lines_told()
        ]
        await asyncio.gather(*waits)

    def _go_on(self, line: _Line) -> asyncio.Future[None]:
        """Serve the line; the future is done when it was told all that it is to be told now."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(told)
        if line.task is None or line.task.done():
            line.task = self.spawn(line.address, self._serve(line))
        return told

    async def _serve(self, line: _Line) -> None:
        while line.waiting:
            waiting, line.waiting = line.waiting, []
            try:
                if line.whole or line.changed:
                    line.is_lost = not await self._try(line.address, self._bring(line), "registered")
            finally:
                _end(waiting)
        if not any(other.waiting for other in self._lines.values()):
            self._table = None

    async def _bring(self, line: _Line) -> None:
        whole, line.whole = line.whole, False
        names, line.changed = line.changed, set()
        if whole or any(name not in self._topics for name in names):  # only the whole table tells that a topic is gone
            await self._register_all(line)
            return
        try:
            await self._register_some(line, names)
        except RemoteError:
            await self._register_all(line)

    async def _register_some(self, line: _Line, names: set[str]) -> None:
        """One topic a request. A registration of some topics only would make a name server that has
        deleteTopicWithBrokerRegistration=true forget all others. Name servers before 5.0 do not know this request."""
        config, timeout_ms = self._config.now, self._config.now.register_timeout_ms
        topics = self._masked(topic for name in sorted(names) if (topic := self._topics.get(name)) is not None)
        if config.single_topic_register:
            try:
                for topic in topics:
                    if topic.name not in self._topics:
                        continue  # deleted while the topic before it was sent
                    self._mark_ordered(await self._outbound.register_topic(line.address, topic, timeout_ms))
                return
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
        await self._register(line, await self._body(topics))

    async def _register_all(self, line: _Line) -> None:
        """The table as it is now. A topic that changes meanwhile gets a registration of its own behind this one."""
        async with self._making_table:  # once for all lines that need it
            state = self._topics.data_version, self._config.now.permission
            if self._table is None or self._table[0] != state:
                self._table = state, await self._body(list(self._topics.all()))
            data = self._table[1]
        await self._register(line, data)

    async def _register(self, line: _Line, data: bytes) -> None:
        """Bring these topics, and hear what the name server answers."""
        config = self._config.now
        line.is_refused = False
        for pause in _ELECTED_PAUSES_SECONDS if config.controller_mode else ():
            try:
                return self._hear(await self._outbound.register(line.address, data, config.register_timeout_ms))
            except RemoteError as error:
                if error.code != ResponseCode.NO_PERMISSION or not self._master.role.is_master:
                    raise
            line.is_refused = True
            await self._clock.sleep(pause)
        self._hear(await self._outbound.register(line.address, data, config.register_timeout_ms))
        line.is_refused = False

    def _hear(self, told: Registered) -> None:
        self._master.told(told.master_address, told.ha_address)
        self._mark_ordered(told.orders)

    def _interval_seconds(self) -> float:
        if not self._master.role.is_master and not self._master.address:
            return _WITHOUT_MASTER_SECONDS
        if any(line.is_refused for line in self._lines.values()):
            return _REFUSED_SECONDS
        return min(max(self._config.now.register_interval_ms, _INTERVAL_MS_MIN), _INTERVAL_MS_MAX) / 1000

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

    async def _try(self, address: str, telling: Awaitable[None], what: str) -> bool:
        reason = ""
        try:
            await telling
        except RocketLakeError as error:
            reason = f"not {what} with name server {address}: {error}"
            _log.warning("%s", reason)
        except Exception as error:
            reason = f"not {what} with name server {address}: {error!r}"
            _log.exception("%s", reason)
        if self.is_running and address in self._addresses():
            self._note(address, reason)
        return not reason

    def _note(self, address: str, reason: str) -> None:
        self.health.set(f"registration/{address}", reason)


def _end(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
