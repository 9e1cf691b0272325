"""EtcdWatch: tells which keys changed, by a watch of etcd and a look each second beside it.

Owns        the watch's connection and its end, the look, the revision up to which changes are told.
Must not know   values, what is done about a change.

A watch of etcd can fall silent: its member is paused or cut off, or it was cancelled while the connection stays. So the
look asks for what changed since, and a watch that has not told what the look before saw is ended. After a watch ends,
any key may have changed: a removal is not seen by the look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, ProtocolError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.controller.etcd.cluster import EtcdCluster
from rocketlake.controller.etcd.member import Member
from rocketlake.controller.etcd.wire import RangeAnswer, WatchLine, changes_body, read_answer, watch_body
from rocketlake.controller.registers.register import Changed
from rocketlake.controller.registers.watches import Watches
from rocketlake.net.http.link import HttpLink

__all__ = ["EtcdWatch"]

_log = get_logger(__name__)
_PAUSE_SECONDS = 0.1
"""Before the next watch, after one ended."""
_NEEDS_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""Ends a watch whose member lost the leader."""


class EtcdWatch(Service):
    """One watch on all keys of the register. Prefixes and keys are the register's, without the root."""

    def __init__(self, cluster: EtcdCluster, clock: Clock) -> None:
        super().__init__("etcd-watch", clock)
        self._cluster = cluster
        self._root = cluster.root
        self._watches = Watches()
        self._link: HttpLink | None = None
        self._looked = 0
        """Changes up to this revision are told; 0 before the first look."""
        self._turn = 0
        """Which member has the next watch."""
        self._reason = ""
        """Why we ended the watch."""
        self._watched = 0
        """The newest change that the watch told."""
        self._due = 0
        """The newest change that the last look saw; the watch must have told it by the next look."""
        self._warnings = RareWarnings(_log, clock=clock)

    async def start(self) -> None:
        """Starts the look and the watch."""
        await super().start()
        self.keep("look", self._look_round)
        self.keep("follow", self._follow)

    def add(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """Tell `changed` of keys that start with `prefix`; returns the function that ends this."""
        return self._watches.add(prefix, changed)

    # -- the look ------------------------------------------------------------------------------------------------------

    async def _look_round(self) -> None:
        try:
            await self._look()
            self.health.set(self.name, "")
        except LinkError as error:
            self.health.set(self.name, f"no failover while etcd is out of reach: {error.what}")
        await self._clock.sleep(self._cluster.settings.poll_seconds)

    async def _look(self) -> None:
        read = await self._cluster.ask("/v3/kv/range", changes_body(self._root.encode(), self._looked + 1), RangeAnswer)
        is_first, self._looked = not self._looked, max(self._looked, read.answer.header.revision)
        if is_first:
            self._tell(())  # what changed between a caller's first read and this look is told by nobody else
            return
        if self._link is not None and self._watched < self._due:
            self._warnings.warn("silent", "etcd's watch is silent although keys changed: it is begun anew")
            self._end("it was silent")
        if read.answer.kvs:
            self._due = max(kv.mod_revision for kv in read.answer.kvs)
            self._tell(kv.key for kv in read.answer.kvs)

    # -- the watch -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """One watch, until it ends."""
        if self._looked:
            member = self._cluster.members[self._turn % len(self._cluster.members)]
            self._turn += 1
            reason = await self._watch_at(member)
            self._warnings.info("ended", "etcd's watch at %s ended: %s", member.name, reason)
            self._tell(())
        await self._clock.sleep(_PAUSE_SECONDS)

    async def _watch_at(self, member: Member) -> str:
        """Watch at this member until it ends; returns why it did."""
        opening = self.spawn("open", self._open(member))
        try:
            is_open = await self._clock.wait(opening, self._cluster.settings.try_seconds)
        finally:
            opening.cancel()
        if not is_open:
            return "no answer"
        link = opening.result()
        if not isinstance(link, HttpLink):
            return link
        self._link, self._reason = link, ""
        self._watched = self._looked  # what came before is told by the look
        try:
            body = watch_body(self._root.encode(), self._looked + 1)
            answer = await link.ask("/v3/watch", body, {**self._cluster.headers(), **_NEEDS_LEADER}, self._line)
            return self._reason or f"status {answer.status}, {answer.body[:200]!r}"
        except RocketLakeError as error:
            return self._reason or error.what
        finally:
            self._link = None
            link.close()

    async def _open(self, member: Member) -> HttpLink | str:
        try:
            return await member.take()
        except RocketLakeError as error:
            return error.what

    def _line(self, line: bytes) -> None:
        """One line of the watch. A watch that is cancelled keeps its connection, so we end it."""
        try:
            told = read_answer(line, WatchLine)
        except ProtocolError as error:
            self._end(error.what)
            return
        if told.error is not None or told.result is None:
            self._end(told.error.message if told.error is not None else f"it says {line[:200]!r}")
            return
        stale = self._cluster.freshness.judge(told.result.header, 0)
        if told.result.canceled or stale:
            self._end(stale or told.result.cancel_reason or "it was cancelled")
        elif told.result.events:
            self._watched = max(self._watched, *(event.kv.mod_revision for event in told.result.events))
            self._tell(event.kv.key for event in told.result.events)

    def _end(self, reason: str) -> None:
        self._reason = reason
        if self._link is not None:
            self._link.close()

    def _tell(self, keys: Iterable[bytes]) -> None:
        """These keys changed; none: any may have."""
        start = len(self._root)
        self._watches.tell({key.decode(errors="replace")[start:] for key in keys})
