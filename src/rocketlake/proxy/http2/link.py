"""GrpcLink: one accepted connection: chunks in, calls out, answers back in one write for each chunk.

Owns        the life of a connection and of its calls, the windows of the peer, how much may wait in each direction.
Must not know   the bytes of frames (engine.py), what a method does.

A chunk is served whole before its answers are written. Requests that are not answered yet are counted: above a limit
the peer gets no more window, so it is slowed down as the broker is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol, cast

from rocketlake.base.callbacks import call as call_safely
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.proxy.http2.call import Call, Methods
from rocketlake.proxy.http2.engine import NO_ERROR, Engine, EngineFailed, Headers
from rocketlake.proxy.http2.framing import (
    PREFIX_BYTES,
    CallFailed,
    GrpcStatus,
    MessageReader,
    is_whole,
    outcome,
    timeout_seconds,
)
from rocketlake.proxy.http2.library import make_engine
from rocketlake.proxy.http2.limits import GrpcLimits

__all__ = ["Flushes", "GrpcEndpoint", "GrpcLink", "LinkOwner", "Traffic"]

_log: Final = get_logger(__name__)

_PORTION_BYTES: Final = 256 << 10
_GRPC: Final = b"application/grpc"
_NOT_GRPC: Final = b"this port speaks gRPC: POST with the content type application/grpc"
_NOT_GRPC_HEAD: Final = ((b":status", b"415"), (b"content-type", b"text/plain"))
_NOTED_BYTES: Final = 64 << 10
"""In steps of this size the budget of all links is told what a link keeps."""


class LinkOwner(Protocol):
    """The server, as its links see it."""

    def opened(self, link: GrpcLink) -> str:
        """A connection came. Returns why there is no room, "" if there is."""

    def lost(self, link: GrpcLink) -> None:
        """The connection is gone."""


class Traffic:
    """Bytes of all links of one server since its start."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0


class Flushes:
    """Links that have answers outside of a chunk: they write once, at the end of the turn, or when `now` is called."""

    def __init__(self) -> None:
        self._links: dict[GrpcLink, None] = {}
        self._is_held = False

    def plan(self, link: GrpcLink) -> None:
        """This link has something to write."""
        if not self._links and not self._is_held:
            asyncio.get_running_loop().call_soon(self.now)
        self._links[link] = None

    def hold(self) -> None:
        """Links wait for `now`, which the caller calls in this turn of the loop."""
        self._is_held = True

    def now(self) -> None:
        """All of them write."""
        self._is_held = False
        links, self._links = self._links, {}
        for link in links:
            call_safely(link.flush)


@dataclass(frozen=True, slots=True)
class GrpcEndpoint:
    """Shared by all links of one server."""

    methods: Methods
    limits: GrpcLimits
    clock: Clock
    warnings: RareWarnings
    budget: UnfinishedBytes
    traffic: Traffic
    flushes: Flushes


class GrpcLink(asyncio.Protocol):
    """One connection. Dead after `connection_lost`, for good. See Streams, CallLink, ServedLink."""

    def __init__(self, owner: LinkOwner, endpoint: GrpcEndpoint) -> None:
        self._owner = owner
        self._methods = endpoint.methods
        self._limits = endpoint.limits
        self._message_bytes = endpoint.limits.message_bytes
        self._link_bytes = endpoint.limits.link_bytes
        self._flushes = endpoint.flushes
        self._clock = endpoint.clock
        self._warnings = endpoint.warnings
        self._budget = endpoint.budget
        self._traffic = endpoint.traffic
        self.remote: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.address = "unconnected"
        self.is_encrypted = False
        self.certificate_name = ""
        self.closed = False
        self.calls: dict[int, Call] = {}
        """Open calls by their stream."""
        self._engine: Engine | None = None
        """Made at the first byte: before it the peer may still begin to encrypt."""
        self._transport: asyncio.Transport | None = None
        self.held_bytes = 0
        """Of requests that are not answered yet."""
        self._noted_bytes = 0
        """What the budget of all links knows of them."""
        self._owed: dict[int, int] = {}
        """Window that the peer gets when some requests are answered: bytes by stream."""
        self._to_reset: list[int] = []
        """Streams that we have ended, and whose request is not whole."""
        self._in_chunk = False
        self._paused = False
        self._since = endpoint.clock.monotonic()
        """When bytes of the peer came last."""
        self._asked_since: float | None = None
        """When the peer was asked for a sign of life; None: it owes none."""
        self._stalled_since: float | None = None
        self._stalled_at = (0, 0)

    # -- life: asyncio.Protocol and net.tls.network.ServedLink ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self.remote = _host_port(transport.get_extra_info("peername"))
        self.local = _host_port(transport.get_extra_info("sockname"))
        self.address = f"{self.remote[0]}:{self.remote[1]}"
        self._transport.set_write_buffer_limits(high=self._limits.write_high_bytes)
        if refusal := self._owner.opened(self):
            self.abort("full", refusal)

    def secured(self, transport: asyncio.Transport) -> None:
        """See ServedLink."""
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_high_bytes)

    def known_as(self, certificate_name: str) -> None:
        """See ServedLink."""
        self.is_encrypted, self.certificate_name = True, certificate_name

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.closed = True
        self._engine = None
        for call in list(self.calls.values()):
            call.close()
        self.calls.clear()
        self._owed.clear()
        self._budget.note(self, 0)
        self._owner.lost(self)

    def abort(self, kind: str, why: str) -> None:
        """Close at once. The log says why; the same `kind` of a host again and again fills no log."""
        if self._transport is not None and not self.closed:
            self._warnings.warn(f"{self.remote[0]} {kind}", "gRPC link %s closed: %s", self.address, why)
            self._transport.abort()

    def go_away(self, *, final: bool) -> None:
        """Tell the peer to go elsewhere; `final`: no new call is served."""
        if self._engine is not None:
            self._engine.go_away(final=final)
            self.flush()

    def drain(self) -> None:
        """The server stops: calls that wait are answered soon."""
        for call in list(self.calls.values()):
            call.drain()

    def close(self) -> None:
        """Close behind what is written."""
        if self._transport is not None and not self.closed:
            self.flush()
            self._transport.close()

    def sweep(self, now: float) -> None:
        """Called twice a second with monotonic time: deadlines of calls, peers that are silent or stand still."""
        limits = self._limits
        for call in list(self.calls.values()):
            if call.deadline is not None and call.deadline <= now:
                call.end(GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call has passed")
        if self._engine is None:
            if now - self._since > limits.handshake_seconds:
                self.abort("silent", f"it sent nothing in {limits.handshake_seconds:g} s")
        elif self._is_stalled(now):
            self.abort("stalled", f"nothing has moved for {limits.stalled_seconds:g} s, {self._stalled_at} bytes wait")
        elif self._asked_since is not None:
            if now - self._asked_since > limits.pong_seconds:
                self.abort("dead", "it gives no sign of life")
        elif now - self._since > limits.ping_seconds:
            self._asked_since = now
            self._engine.ping()
            self.flush()

    def _is_stalled(self, now: float) -> bool:
        """True when the answers have not moved for too long, or the requests that are begun."""
        assert self._engine is not None and self._transport is not None
        unsent = self._engine.unsent() + self._transport.get_write_buffer_size()
        begun = sum(call.held_bytes for call in self.calls.values() if call.is_inside)
        at = unsent, begun
        if at != self._stalled_at or at == (0, 0):
            self._stalled_at, self._stalled_since = at, now
        return self._stalled_since is not None and now - self._stalled_since > self._limits.stalled_seconds

    # -- bytes in ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. Serves all that the chunk brings, then writes."""
        if self.closed:
            return
        self._since, self._asked_since = self._clock.monotonic(), None
        self._traffic.received += len(data)
        if self._engine is None:
            self._engine = make_engine(self, self._limits)
        self._in_chunk = True
        try:
            self._engine.receive(data)
        except EngineFailed as error:
            self.abort("refused", error.what)
            return
        finally:
            self._in_chunk = False
        self.flush()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    # -- Streams -------------------------------------------------------------------------------------------------------

    def opened(self, stream: int, headers: tuple[tuple[bytes, bytes], ...], ended: bool) -> None:
        """See Streams."""
        named = dict(headers)
        method = self._methods.get(named.get(b":path", b""))
        refusal: CallFailed | None = None
        deadline = None
        if not named.get(b"content-type", b"").startswith(_GRPC) or named.get(b":method") != b"POST":
            text = b"" if named.get(b":method") == b"HEAD" else _NOT_GRPC  # which has no body
            refused = outcome(GrpcStatus.INVALID_ARGUMENT, _NOT_GRPC.decode())
            self._engine_now.answer(stream, _NOT_GRPC_HEAD, text, refused)
            self._leave(stream, ended)
            return
        if method is None:
            refusal = CallFailed(GrpcStatus.UNIMPLEMENTED, "this server has no such method")
        try:
            if timeout := named.get(b"grpc-timeout"):
                deadline = self._since + timeout_seconds(timeout)
        except CallFailed as error:
            refusal = error
        if refusal is not None or method is None:
            assert refusal is not None
            head = ((b":status", b"200"), (b"content-type", _GRPC), *outcome(refusal.status, refusal.text))
            self._engine_now.respond(stream, head, ended=True)
            self._leave(stream, ended)
            return
        self.calls[stream] = Call(self, stream, named, method, deadline)
        if ended:
            self.received(stream, b"", True)

    def received(self, stream: int, data: bytes, ended: bool) -> None:
        """See Streams."""
        call = self.calls.get(stream)
        if call is None:  # it is over for us, and the peer does not know yet
            self._engine_now.taken(stream, len(data))
            return
        call.has_sent_all = ended
        if data:
            self._hold(call, len(data))
        try:
            if ended and call.reader is None and is_whole(data, self._message_bytes) and not call.method.takes_stream:
                call.method.serve(call, data[PREFIX_BYTES:])  # the usual request: one message, in one piece
            else:
                self._serve(call, data, ended)
        except CallFailed as error:
            call.fail(error)
        except Exception:
            _log.exception("a call of %s failed", self.address)
            call.end(GrpcStatus.INTERNAL, "the server failed, see its log")

    def lost(self, stream: int) -> None:
        """See Streams."""
        call = self.calls.pop(stream, None)
        if call is not None:
            call.close()

    def _serve(self, call: Call, data: bytes, ended: bool) -> None:
        reader = self._reader_of(call)
        messages = reader.take(data)
        if call.method.takes_stream:
            for message in messages:
                call.method.serve(call, message)
            if not call.is_over:
                call.served(call.held_bytes - reader.begun_bytes)
            if ended:
                call.end()
            return
        for message in messages:
            if call.message is not None:
                raise CallFailed(GrpcStatus.INVALID_ARGUMENT, "this method takes one message")
            call.message = message
        if ended:
            if call.message is None:
                raise CallFailed(GrpcStatus.INVALID_ARGUMENT, "a call without a whole message")
            message, call.message = call.message, None
            call.method.serve(call, message)

    def _reader_of(self, call: Call) -> MessageReader:
        if call.reader is None:
            call.reader = MessageReader(self._limits.message_bytes, call.headers.get(b"grpc-encoding", b""))
        return call.reader

    # -- windows: how much the peer may send ---------------------------------------------------------------------------

    def _hold(self, call: Call, size: int) -> None:
        call.held_bytes += size
        self.held_bytes += size
        if self.held_bytes <= self._link_bytes and not self._owed:
            self._engine_now.taken(call.stream, size)
        else:
            self._owed[call.stream] = self._owed.get(call.stream, 0) + size
            self._give_window()
        if not 0 <= self.held_bytes - self._noted_bytes < _NOTED_BYTES:
            self._note()

    def _note(self) -> None:
        """Tell the budget of all links what this one keeps, in steps."""
        self._noted_bytes = self.held_bytes // _NOTED_BYTES * _NOTED_BYTES
        self._budget.note(self, self._noted_bytes)

    def _give_window(self) -> None:
        """Let the peer go on: with all requests, or above the limit with the oldest that is not whole.

        It then becomes whole and is answered, and another one is the oldest.
        """
        streams = list(self._owed)
        if self.held_bytes > self._limits.link_bytes:
            oldest = next((call.stream for call in self.calls.values() if not call.has_sent_all), 0)
            streams = [stream for stream in streams if stream == oldest]
        for stream in streams:
            self._engine_now.taken(stream, self._owed.pop(stream))

    def served(self, call: Call, size: int) -> None:
        """See CallLink."""
        size = min(size, call.held_bytes)
        call.held_bytes -= size
        self.held_bytes -= size
        if not 0 <= self.held_bytes - self._noted_bytes < _NOTED_BYTES:
            self._note()

    def over(self, call: Call) -> None:
        """See CallLink."""
        self.calls.pop(call.stream, None)
        if call.held_bytes:
            self.served(call, call.held_bytes)
        if self._owed and self._engine is not None:
            if owed := self._owed.pop(call.stream, 0):  # of a stream whose rest is on its way
                self._engine.taken(call.stream, owed)
            self._give_window()
            self._plan_flush()

    # -- bytes out: CallLink -------------------------------------------------------------------------------------------

    def respond(self, call: Call, headers: Headers, *, ended: bool = False) -> None:
        """See CallLink."""
        if self._engine is not None:
            self._engine.respond(call.stream, headers, ended=ended)
            if ended:
                self._leave(call.stream, call.has_sent_all)
            self._plan_flush()

    def answer(self, call: Call, headers: Headers, data: bytes, trailers: Headers) -> None:
        """See CallLink."""
        if self._engine is not None:
            self._engine.answer(call.stream, headers, data, trailers)
            self._leave(call.stream, call.has_sent_all)
            self._plan_flush()

    def write(self, call: Call, data: bytes) -> None:
        """See CallLink."""
        if self._engine is not None:
            self._engine.write(call.stream, data)
            self._plan_flush()

    def end(self, call: Call, trailers: Headers) -> None:
        """See CallLink."""
        if self._engine is not None:
            self._engine.trailers(call.stream, trailers)
            self._leave(call.stream, call.has_sent_all)
            self._plan_flush()

    def _leave(self, stream: int, has_sent_all: bool) -> None:
        """The answer is whole: of a request that is not, the rest is not wanted."""
        if not has_sent_all:
            self._to_reset.append(stream)

    @property
    def _engine_now(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def _plan_flush(self) -> None:
        if not self._in_chunk:
            self._flushes.plan(self)

    def flush(self) -> None:
        """Write what there is."""
        engine = self._engine
        if engine is None or self._transport is None:
            return
        self._write_out(engine)
        if self._to_reset and not self._paused:
            # Behind what was written: a reset throws away what still waits.
            streams, self._to_reset = self._to_reset, []
            for stream in streams:
                engine.reset(stream, NO_ERROR)
            self._write_out(engine)
        if engine.unsent() > self._limits.unsent_bytes:
            self.abort("stuck", f"it does not read, {engine.unsent()} bytes of answers wait")
        elif engine.is_over:
            self._transport.close()

    def _write_out(self, engine: Engine) -> None:
        assert self._transport is not None
        while not self._paused and (data := engine.out(_PORTION_BYTES)):
            self._traffic.sent += len(data)
            self._transport.write(data)

    def pause_writing(self) -> None:
        """See asyncio.Protocol. A peer that does not read is not read from."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paused = False
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()
            self.flush()


def _host_port(address: object) -> tuple[str, int]:
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else (str(address or ""), 0)
