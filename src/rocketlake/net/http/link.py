"""HttpLink: one HTTP/1.1 connection to a server, one exchange at a time.

Owns        the bytes of requests and answers (by the library h11), the limits on answers, the lines of a stream.
Must not know   etcd, what requests and answers mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import h11

from rocketlake.base.errors import LinkError, ProtocolError

__all__ = ["HttpAnswer", "HttpLink"]

BODY_BYTES_MAX = 32 * 1024 * 1024
"""A longer answer, or line of a stream, ends the link: no list of groups is as long."""
_HEAD_BYTES_MAX = 64 * 1024
OnLine = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer."""

    status: int
    body: bytes


class HttpLink(asyncio.Protocol):
    """A connection, kept alive between exchanges. After any error it is closed and good for nothing."""

    def __init__(self, host: str, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        """`host` is what the header Host says."""
        self._host = host
        self._body_bytes_max = body_bytes_max
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._on_line: OnLine | None = None
        self._status = 0
        self._body = bytearray()

    @property
    def is_usable(self) -> bool:
        """True while another exchange may begin."""
        return self._transport is not None and self._answer is None and self._http.our_state is h11.IDLE

    def ask(
        self, path: str, body: bytes | None, headers: Mapping[str, str], on_line: OnLine | None = None
    ) -> asyncio.Future[HttpAnswer]:
        """POST `body`, which is JSON; without one, GET.

        The future fails with LinkError if the connection breaks, ProtocolError on bad bytes. With `on_line` an answer
        of status 200 is a stream: each line is passed on, and the future's body is empty.
        """
        if not self.is_usable or self._transport is None:
            raise LinkError("the connection is closed")
        own = {"Host": self._host}
        if body is not None:
            own |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        request = h11.Request(
            method="GET" if body is None else "POST", target=path, headers=[*own.items(), *headers.items()]
        )
        parts = [self._http.send(event) for event in (request, h11.Data(data=body or b""), h11.EndOfMessage())]
        self._answer = asyncio.get_running_loop().create_future()
        self._on_line = on_line
        self._transport.write(b"".join(part for part in parts if part))
        return self._answer

    def close(self) -> None:
        """End the connection at once; the server drops the request in hand if it can."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(LinkError("the connection was closed here"))

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._fail(LinkError(f"the connection broke: {error}" if error else "the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._transport is None:
            return
        try:
            self._http.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self._refuse(f"the server's HTTP is wrong: {error}")

    def _read(self) -> None:
        event = self._http.next_event()
        while event is not h11.NEED_DATA and event is not h11.PAUSED:
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                self._take(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._end()
            elif isinstance(event, h11.ConnectionClosed):
                self._fail(LinkError("the server closed the connection"))
            if self._transport is None:
                return
            event = self._http.next_event()

    def _take(self, data: bytes | bytearray | memoryview) -> None:
        self._body += data
        if self._on_line is not None and self._status == 200:
            *lines, self._body = self._body.split(b"\n")
            for line in lines:
                if line.strip():
                    self._on_line(bytes(line))
        if len(self._body) > self._body_bytes_max:
            self._refuse(f"the server's answer has more than {self._body_bytes_max} bytes")

    def _end(self) -> None:
        answer, self._answer = self._answer, None
        body, self._body = bytes(self._body), bytearray()
        self._on_line = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        else:
            self._drop()
        if answer is not None and not answer.done():
            answer.set_result(HttpAnswer(self._status, body))

    def _refuse(self, reason: str) -> None:
        self._drop()
        self._fail(ProtocolError(reason))

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _fail(self, error: Exception) -> None:
        self._transport = None
        answer, self._answer = self._answer, None
        self._body.clear()
        if answer is not None and not answer.done():
            answer.set_exception(error)
