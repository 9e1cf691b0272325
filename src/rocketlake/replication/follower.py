"""The follower: copies the log of a master.

Owns        when a connection to the master is made and given up, when the own end is reported.
Must not know   bytes of frames (dialect.py), how records are put together (incoming.py), why this broker follows.

One connection at a time. It ends with the first thing that is wrong, and the next one begins at the end of the own log:
nothing is kept from one to the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from rocketlake.auth.credentials import Credentials
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.network import Network
from rocketlake.replication.dialect import FollowerDialect
from rocketlake.replication.master_link import MasterLink
from rocketlake.replication.settings import StreamSettings
from rocketlake.store.message_store import MessageStore

__all__ = ["Follower", "FollowerStatus"]

_log = get_logger(__name__)

_PAUSE_SECONDS_FIRST, _PAUSE_SECONDS_MAX = 0.01, 0.5  # a new master serves some ten milliseconds after it is known
_RED_SECONDS = 10.0
"""A slave that follows nobody for longer is in trouble."""
_LOOK_SECONDS = 0.25
_DUTY = "replication/follower"


@dataclass(frozen=True, slots=True)
class FollowerStatus:
    """How a slave follows, for haStatus."""

    master: str
    """`host:port` of the HA stream, "" while none is known."""
    is_connected: bool
    end: PhysicalOffset
    """Where the own log ends."""
    master_end: PhysicalOffset
    """Where the newest byte of the master that came lies."""
    heard_seconds_ago: float
    bytes_per_second: int


class Follower(Service):
    """Follows one master at a time. May be started again after a stop."""

    def __init__(
        self,
        store: MessageStore,
        settings: StreamSettings,
        clock: Clock,
        network: Network,
        *,
        master: Callable[[], str],
        dialect: Callable[[], FollowerDialect],
        waits_for: Callable[[], str] = lambda: "",
        credentials: Callable[[], Credentials | None] = lambda: None,
    ) -> None:
        """`master`: the `host:port` to follow now, "" while none is known. `dialect` makes that of a connection.

        `waits_for`: why it may not follow yet, "" if it may. `credentials`: what it proves itself with.
        """
        super().__init__("follower", clock)
        self._store = store
        self._settings = settings
        self._network = network
        self._master = master
        self._make_dialect = dialect
        self._waits_for = waits_for
        self._credentials = credentials
        self._link: MasterLink | None = None
        self._address = ""
        self._good_at = 0.0
        """When there last was a connection that made progress."""
        self._heard_at = 0.0
        """When a master was last heard, by the connections that have ended."""
        self._reason = ""
        """Why the last connection ended."""
        self._pause = _PAUSE_SECONDS_FIRST
        self._woken: asyncio.Future[None] | None = None
        self._warnings = RareWarnings(_log, clock=clock)

    async def start(self) -> None:
        """Begin to follow."""
        if self.is_running:
            return
        await super().start()
        self._store.copies = "this broker copies the log of its master: ask the master"
        self._good_at = self._heard_at = self._clock.monotonic()
        self._pause, self._reason = _PAUSE_SECONDS_FIRST, ""
        self.keep("follow", self._round)
        self.every("look", _LOOK_SECONDS, self._look)

    async def stop(self) -> None:
        """Append nothing any more when this returns, and have no truncation half done."""
        if (link := self._link) is not None:
            link.close()
            await link.settled()
        await super().stop()
        self._store.copies = ""
        self.health.set(_DUTY, "")

    def master_changed(self) -> None:
        """Another master may be known, or none any more: look now."""
        self._pause = _PAUSE_SECONDS_FIRST
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
        if self._link is None:
            return
        if reason := self._waits_for():
            self._link.end(reason)
        elif self._master() not in ("", self._address):
            self._link.end("another master is known")

    async def _round(self) -> None:
        """One connection, or one try, and the pause behind it."""
        self._woken = asyncio.get_running_loop().create_future()
        master = self._master()
        reason = self._waits_for() or ("" if master else "no master is known: set haMasterAddress or namesrvAddr")
        if not reason:
            try:
                reason = await self._follow(master)
            except RocketLakeError as error:
                reason = f"cannot follow {master}: {error}"
        self._reason = reason
        self._note(reason)
        await self._clock.wait(self._woken, self._pause)
        self._pause = min(self._pause * 2, _PAUSE_SECONDS_MAX)

    async def _follow(self, master: str) -> str:
        """Follow over one connection; returns why it ended. Raises RocketLakeError."""
        host, _, port = master.rpartition(":")
        if not host or not port.isdigit():
            raise LinkError(f"{master!r} is no address", hint="write haMasterAddress as host:port")
        link = MasterLink(
            self._store,
            self._settings,
            self._make_dialect(),
            self._clock,
            self.spawn,
            credentials=self._credentials,
        )
        # From here on `stop` finds it: a master may answer before the task of the connection goes on.
        self._link, self._address = link, master
        connecting = self.spawn("connect", self._connect(link, host, int(port)))
        try:
            await asyncio.wait((link.ended,))
            await link.settled()  # a truncation goes on when its connection has ended
        finally:
            # Also when this is cancelled: a connection that was just made would go on appending.
            self._link = None
            self._heard_at = self._last_heard(link)
            connecting.cancel()
            link.close()
        if link.is_good:
            self._good_at, self._pause = self._clock.monotonic(), _PAUSE_SECONDS_FIRST
        return f"the stream from {master} ended: {link.ended.result()}"

    async def _connect(self, link: MasterLink, host: str, port: int) -> None:
        try:
            await self._network.connect(lambda: link, host, port)
        except RocketLakeError as error:
            link.end(str(error))

    def _note(self, reason: str) -> None:
        """Say why nothing is copied; after a while it is a trouble of this broker."""
        if self._clock.monotonic() - self._good_at >= _RED_SECONDS:
            self.health.set(_DUTY, reason)
        else:
            self._warnings.info(reason[:80], "%s", reason)

    def _look(self) -> None:
        link, now = self._link, self._clock.monotonic()
        if link is None:
            return
        link.look(now)
        if link.is_good and link.is_connected:
            self._good_at = now
            self.health.set(_DUTY, "")
        elif now - self._good_at >= _RED_SECONDS:
            self.health.set(_DUTY, self._reason or f"{self._address} {link.waits_for}")

    def status(self) -> FollowerStatus:
        """How this broker follows now."""
        link, end = self._link, self._store.max_physical_offset
        heard = self._clock.monotonic() - (self._heard_at if link is None else self._last_heard(link))
        if link is None or not link.is_connected:
            return FollowerStatus(self._master(), False, end, end, heard, 0)
        return FollowerStatus(self._address, True, end, max(end, link.position), heard, link.bytes_per_second)

    def _last_heard(self, link: MasterLink) -> float:
        """A connection that is accepted says nothing yet: the kernel of a master that hangs accepts it, too."""
        return link.heard_at if link.has_heard else self._heard_at
