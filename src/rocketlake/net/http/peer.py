"""HttpPeer: one accepted HTTP/1.1 connection, one request at a time.

Owns        the bytes of requests and answers (by the library h11), back-pressure, the moment by which the peer must
            act.
Must not know   pages, how many peers there are.

A request has no body, and its head is short; anything else is refused and ends the connection.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final, Protocol, cast

import h11

from rocketlake.base.clock import Clock
from rocketlake.net.http.page import HttpReply, text_reply

__all__ = ["HttpPeer", "PeerOwner"]

_HEAD_BYTES_MAX: Final = 8 * 1024
_HEAD_SECONDS: Final = 10.0
"""A request must be complete so long after its first byte."""
_IDLE_SECONDS: Final = 120.0
"""Between two requests: Prometheus keeps its connection from one scrape to the next."""
_ANSWER_SECONDS: Final = 60.0
_WRITE_HIGH_BYTES: Final = 64 * 1024


class PeerOwner(Protocol):
    """The server of a peer."""

    def opened(self, peer: HttpPeer) -> None:
        """A connection was accepted."""

    def asked(self, peer: HttpPeer, method: str, target: str) -> None:
        """A request is complete: `peer.answer` must be awaited."""

    def closed(self, peer: HttpPeer) -> None:
        """The connection is gone."""


class HttpPeer(asyncio.Protocol):
    """A connection, kept alive between requests."""

    def __init__(self, owner: PeerOwner, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.is_answered = False
        """True while an answer is on its way."""
        self.deadline = 0.0
        """By this moment (monotonic seconds) the peer must have gone on."""

    def close(self) -> None:
        """End the connection at once."""
        transport, self._transport = self._transport, None
        self._room.set()
        if transport is not None:
            transport.abort()
            self._owner.closed(self)

    # -- asyncio.Protocol, and net.tls.network.ServedLink --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._wait(_HEAD_SECONDS)
        self._owner.opened(self)

    def secured(self, transport: asyncio.Transport) -> None:
        """See ServedLink."""
        self._transport = transport

    def known_as(self, certificate_name: str) -> None:
        """See ServedLink; everybody who may connect reads the same."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.close()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._room.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._room.set()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._transport is None:
            return
        if not self.is_answered and self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            self._wait(_HEAD_SECONDS)
        self._http.receive_data(data)
        if self.is_answered and len(self._http.trailing_data[0]) > _HEAD_BYTES_MAX:
            self.close()  # it sends on and on while it is answered
        else:
            self._read()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._take_events()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)

    def _take_events(self) -> None:
        while not self.is_answered and self._transport is not None:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._request = event
                if _size(event) > _HEAD_BYTES_MAX:  # it came in one piece: h11 looks at unfinished heads only
                    self._refuse(431)
            elif isinstance(event, h11.Data):
                self._refuse(413)
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                self.is_answered = True
                self._wait(_ANSWER_SECONDS)
                self._owner.asked(self, self._request.method.decode(), self._request.target.decode())
            elif isinstance(event, h11.ConnectionClosed):
                self.close()

    def _refuse(self, status: int) -> None:
        """Say what is wrong if that can still be said, and end the connection."""
        if self._transport is not None and self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("Connection", "close"), ("Content-Length", "0")]
            head = h11.Response(status_code=status, reason=HTTPStatus(status).phrase, headers=headers)
            for event in (head, h11.EndOfMessage()):
                self._transport.write(self._http.send(event) or b"")
            self._transport.close()
            self._wait(_HEAD_SECONDS)
            self.is_answered = True
        else:
            self.close()

    # -- answers -------------------------------------------------------------------------------------------------------

    async def answer(self, reply: HttpReply, *, allow: str = "") -> None:
        """Write an answer, part by part, as fast as the peer reads. `allow`: the methods of the page."""
        headers = [("Content-Type", reply.content_type), ("Cache-Control", "no-store")]
        headers += [("Allow", allow)] if allow else []
        self._send(h11.Response(status_code=reply.status, reason=HTTPStatus(reply.status).phrase, headers=headers))
        is_head = self._request is not None and self._request.method == b"HEAD"
        if not is_head:
            async for part in reply.parts:
                self._send(h11.Data(data=part))
                await self._room.wait()
                if self._transport is None:
                    return
        self._send(h11.EndOfMessage())
        self.is_answered, self._request = False, None
        if self._transport is None:
            return
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._wait(_IDLE_SECONDS)
            self._read()  # what came meanwhile
        else:
            self._transport.close()
            self._wait(_HEAD_SECONDS)

    async def say(self, status: int, text: str, *, allow: str = "") -> None:
        """Answer with a line."""
        await self.answer(text_reply(text + "\n", status), allow=allow)

    def _send(self, event: h11.Event) -> None:
        if self._transport is not None:
            self._transport.write(self._http.send(event) or b"")

    def _wait(self, seconds: float) -> None:
        self.deadline = self._clock.monotonic() + seconds


def _size(request: h11.Request) -> int:
    return len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
