"""The leader: serves the slaves of this broker on haListenPort.

Owns        the listener, the set of connections and their number, who is woken after an append.
Must not know   bytes of frames, when a message is acknowledged (ack_set.py), why this broker leads.

The port is bound from the start of the broker to its stop, so that a slave which becomes the master has it. While the
broker does not lead, connections are closed at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.figures.histogram import Histogram
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.network import CannotListen, Listener, Network
from rocketlake.replication.ack_set import AckRule
from rocketlake.replication.dialect import LeaderDialect
from rocketlake.replication.settings import StreamSettings
from rocketlake.replication.slave_link import CheckProof, LinkParts, SlaveLink
from rocketlake.store.message_store import MessageStore

__all__ = ["Leader", "SlaveStatus"]

_log = get_logger(__name__)

_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class SlaveStatus:
    """One slave, for haStatus."""

    name: str
    address: str
    ack: PhysicalOffset
    sent: PhysicalOffset
    """Up to where the log was sent."""
    behind: int
    """Bytes of the log that it has not reported."""
    bytes_per_second: int


class Leader(Service):
    """Serves slaves while it `leads`."""

    def __init__(
        self,
        store: MessageStore,
        settings: StreamSettings,
        clock: Clock,
        network: Network,
        *,
        host: str,
        port: int | None,
        dialect: Callable[[str], LeaderDialect],
        rule: AckRule,
        check: CheckProof | None = None,
    ) -> None:
        """`dialect` makes that of a connection from a host; `port` 0: any free one, None: none.

        `check`: who may have the log; None: everybody who reaches the port.
        """
        super().__init__("leader", clock)
        self.rule = rule
        """Who counts the acks; may be replaced while no slave is connected."""
        self.leads = False
        self._store = store
        self._settings = settings
        self._network = network
        self._host, self._port = host, port
        self._listener: Listener | None = None
        self._links: dict[SlaveLink, None] = {}
        self._newest: dict[str, SlaveLink] = {}
        """The connection of each replica that reported first last: only its acks count."""
        self._watches = False
        """Somebody is to be looked after: a slave has come, or acks wait for one."""
        self._is_planned = False
        self._warnings = RareWarnings(_log, clock=clock)
        self.ack_seconds = Histogram()
        """Of all slaves: from the sending of a place of the log until it was reported."""
        self._parts = LinkParts(self, store, settings, clock, dialect, self._warnings, check, self.ack_seconds)

    @property
    def port(self) -> int:
        """The port of the listener; before the start that of the settings."""
        return self._listener.port if self._listener is not None else self._port or 0

    async def start(self) -> None:
        """Bind the port. Raises CannotListen."""
        await super().start()
        if self._port is None:
            return
        try:
            self._listener = await self._network.listen(lambda: SlaveLink(self._parts), self._host, self._port)
        except CannotListen as error:
            error.name_settings(port="haListenPort", host="bindAddress")
            raise
        self._watch()

    async def stop(self) -> None:
        """Close the port and all connections."""
        self.follow()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await super().stop()

    def lead(self, *, watches: bool = True) -> None:
        """Serve slaves from now on. `watches`: the rule looks also before the first slave has come."""
        self.leads = True
        self._watches = self._watches or watches
        self._watch()

    def _watch(self) -> None:
        """A broker that no slave ever asks is not woken for nothing."""
        if self._watches and self.is_running and "look" not in self.duties:
            self.every("look", _LOOK_SECONDS, self._look)

    def follow(self) -> None:
        """Serve no slaves any more: those that are connected are turned away."""
        self.leads = False
        for link in tuple(self._links):
            link.close()

    # -- links ---------------------------------------------------------------------------------------------------------

    def opened(self, link: SlaveLink) -> bool:
        """See SlaveOwner."""
        if not self.leads:
            return False
        if len(self._links) >= self._settings.connections:
            expendable = self._expendable(link.host)
            if expendable is None:
                self._warnings.warn("full", "%s is not served: %d slaves are", link.address, len(self._links))
                return False
            expendable.drop("room", "a new connection gets its place (haConnectionsMax)")
        self._links[link] = None
        self._watches = True
        self._watch()
        self._store.on_append(self.wake)
        return True

    def _expendable(self, host: str) -> SlaveLink | None:
        """Who goes for a newcomer from `host`: of the host with the most, one that has said nothing if there is one.

        Those of whom it is not known who they are go first. So no host that opens many connections takes the place of
        a replica on another one.
        """
        crowd = Counter(link.host for link in self._links)
        candidates = (
            link
            for link in self._links
            if crowd[link.host] > crowd[host] + 1
            or (link.ack < 0 and crowd[link.host] >= crowd[host])
            or not link.is_proven
        )
        return max(candidates, key=lambda link: (not link.is_proven, crowd[link.host], link.ack < 0), default=None)

    def reported(self, link: SlaveLink) -> None:
        """See SlaveOwner."""
        if not (link.dialect.counts and self.leads) or link.is_replaced:
            return
        name = link.dialect.name
        before = self._newest.get(name)
        if before is not link:
            self._newest[name] = link
            if before is not None:  # perhaps not noticed to be dead: what it reported may be lost by now
                before.is_replaced = True
                self._warnings.warn(f"twice {name}", "slave %s: %s counts, not %s", name, link.address, before.address)
                self.rule.left(name)
        self.rule.reported(name, link.ack)

    def lost(self, link: SlaveLink) -> None:
        """See SlaveOwner."""
        if link not in self._links:
            return
        del self._links[link]
        if link.ack >= 0:
            self._warnings.info(
                f"{link.host} {link.dialect.name} gone", "slave %s is gone, its log ends at %d", link.address, link.ack
            )
        name = link.dialect.name
        if self._newest.get(name) is link:
            del self._newest[name]
            self.rule.left(name)
            for other in tuple(self._links):
                if other.is_replaced and other.dialect.name == name:
                    other.drop("twice", "the newer connection of this replica has ended: this one is to begin anew")
        if not self._links:
            self._store.on_append(None)

    def turn_away(self, name: str) -> None:
        """Another process has this name now: no report counts that came, or comes, on a connection of before."""
        if self._newest.pop(name, None) is not None:
            self.rule.left(name)
        for link in tuple(self._links):
            if link.dialect.name == name:
                link.is_replaced = True
                link.drop("another", f"another process is replica {name} now")

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """See SlaveOwner."""
        if seconds:
            self.spawn("later", self._after(seconds, call))
        else:
            asyncio.get_running_loop().call_soon(call)

    async def _after(self, seconds: float, call: Callable[[], object]) -> None:
        await self._clock.sleep(seconds)
        call()

    # -- appends -------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Records were appended: all of this turn are sent together."""
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_planned = False
        for link in tuple(self._links):
            link.send()

    def _look(self) -> None:
        now = self._clock.monotonic()
        for link in tuple(self._links):
            link.look(now)
        if self.leads:
            self.rule.look(self._store.log.max_offset)

    def slaves(self) -> list[SlaveStatus]:
        """The slaves that have reported, in the order they came."""
        end = self._store.log.max_offset
        return [
            SlaveStatus(
                name=link.dialect.name,
                address=link.address,
                ack=link.ack,
                sent=link.sent,
                behind=end - link.ack,
                bytes_per_second=link.bytes_per_second,
            )
            for link in self._links
            if link.ack >= 0
        ]
