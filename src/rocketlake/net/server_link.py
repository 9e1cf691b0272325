"""ServerLink: one accepted connection.

Owns        the serving side: a place among the server's links, GO_AWAY while it drains, early refusal of large bodies.
Must not know   listening (server.py).
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from rocketlake.net.endpoint import Endpoint
from rocketlake.net.link import Link
from rocketlake.net.peer import Peer
from rocketlake.net.request import Reply, Request
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import GO_AWAY_AFTER

_GO_AWAY: Final = "please go away"
_JUDGED_BYTES: Final = 64 * 1024
"""From this size on the header of an unfinished request is read: its body may be larger than its handler takes."""


class LinkOwner(Protocol):
    """The server, as its links see it."""

    draining: bool

    def opened(self, link: Peer) -> str:
        """A connection came. Returns why there is no room, and the link closes itself; "" if there is."""

    def lost(self, link: Peer) -> None:
        """The connection is gone."""

    def expects(self, link: Peer) -> None:
        """The link has asked its peer something."""


class ServerLink(Link):
    """One accepted connection. `state` is a dict for the owner of the server (client id and so on)."""

    def __init__(self, owner: LinkOwner, endpoint: Endpoint, unfinished: UnfinishedBytes) -> None:
        super().__init__(endpoint)
        self._owner = owner
        self._unfinished = unfinished
        self._is_judged = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: accepted."""
        super().connection_made(transport)
        if refusal := self._owner.opened(self):
            self.abort("full", refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is gone."""
        super().connection_lost(exc)
        self.note_unfinished(0)
        self._machine.forget()
        self._owner.lost(self)

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Asks the client; see Link.start."""
        future = super().start(command, timeout_ms)
        self._owner.expects(self)
        return future

    def note_unfinished(self, size: int) -> int:
        """`size` bytes of an incomplete frame are kept. A request with too large a body is refused now."""
        if size < _JUDGED_BYTES:
            self._is_judged = False
        elif not self._is_judged:
            self._is_judged = True
            if self._refuse_begun():
                size = 0
        self._unfinished.note(self, size)
        return size

    def _refuse_begun(self) -> bool:
        """Refuse a request whose body is too large before all of it has come; the rest is skipped as it comes."""
        found = self._machine.begun()
        if found is None or found[0].is_response:
            return False
        reply = self._dispatcher.refuse_body(found[0].code, found[1])
        if reply is None:
            return False
        self._machine.skip()
        self._deliver(found[0], reply)
        return True

    @property
    def admits_runs(self) -> bool:
        """False when a request might be refused before it is dispatched."""
        return not self._owner.draining and self.held < self._limits.held

    def _admit(self, request: Request) -> Reply | None:
        return (self._owner.draining and _go_away(request)) or super()._admit(request)


def _go_away(request: Request) -> Reply | None:
    """The answer to a request that comes while the server drains; None for clients too old to understand it."""
    return Reply(ResponseCode.GO_AWAY, remark=_GO_AWAY) if request.command.version > GO_AWAY_AFTER else None
