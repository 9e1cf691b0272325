"""Link: one connection seen from our side, in both roles (it serves requests and asks its own).

Owns        a transport and the sans-IO machine on top of it; chunked writing, back-pressure, its pending requests.
Must not know   listening, connecting, what a request code means.

Invariant: at most one write call for all answers of one received chunk.
Invariant: while the peer does not read, nothing more is served to it; what held requests answer meanwhile is bounded.
Invariant: one link is served for `turn_seconds` at a time; who has more to do stands in line (turns.py).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.limits import NetLimits
from rocketlake.net.pending import Pending
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Buffer, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

log: Final = get_logger(__name__)

_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"
_link_ids: Final = itertools.count(1)


class Link(asyncio.Protocol):
    """One connection. Created before it is connected; dead after `connection_lost`, for good."""

    stops_reading: ClassVar[bool] = True
    """Stop reading from a peer that does not read. A client must not: its server may be waiting for it to read."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: NetLimits,
        clock: Clock,
        codec: Codec,
        warnings: RareWarnings,
        turns: Turns,
    ) -> None:
        self.id = next(_link_ids)
        self.remote: tuple[str, int] = ("", 0)
        self.address = "unconnected"
        self.state: dict[str, Any] = {}
        self.on_close: list[Callable[[Asker], None]] = []
        self.pending = Pending()
        self.held = 0
        self.closed = False
        self._dispatcher = dispatcher
        self._limits = limits
        self._clock = clock
        self._warnings = warnings
        self._turns = turns
        self._machine = Connection(codec, limits.wire)
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest = b""
        self._rest_at = 0
        self._backlog: deque[Command] = deque()
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._in_chunk = False
        self._flush_planned = False
        self._serve_planned = False
        self._paused = False
        self._reading = True
        self._closing = False
        self._last_active = 0.0
        self._stuck_since = 0.0
        self._closing_since = 0.0
        self._frame_since: float | None = None
        self._unfinished_bytes = 0
        self._opaques = itertools.count()

    # -- life ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the transport is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername") or ("", 0)
        self.remote = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else (str(peer), 0)
        self.address = f"{self.remote[0]}:{self.remote[1]}"
        high = self._limits.write_high_bytes
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        self._last_active = self._clock.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is gone."""
        self.closed = True
        self._closing = True
        self._backlog.clear()
        self._rest = b""
        self._out.clear()
        self._out_bytes = 0
        self._paused = False
        self.pending.fail_all(f"link to {self.address} closed" + (f": {exc}" if exc else ""))
        call_each(self.on_close, self)

    def close(self) -> None:
        """Closes after what is written is sent. Callable at any time, more than once."""
        if self._transport is not None and not self._closing:
            self._flush()
            self._closing = True
            self._closing_since = self._clock.monotonic()
            self._transport.close()

    def abort(self, kind: str, why: str) -> None:
        """Closes at once. The log says why; a host that is closed for the same `kind` again and again fills no log."""
        if self._transport is not None and not self.closed:
            self._warnings.warn(f"{self.remote[0]} {kind}", "link %s closed: %s", self.address, why)
            self._closing = True
            self._closing_since = self._clock.monotonic()
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Called about once a second with monotonic time: closes an idle, stuck or endlessly slow peer."""
        limits = self._limits
        if self.closed:
            return
        if self._closing:
            if now - self._closing_since > limits.stuck_seconds:
                self.abort("stuck", "it does not take its last bytes")
        elif self._paused and now - self._stuck_since > limits.stuck_seconds:
            self.abort("stuck", f"it does not read, {self._out_bytes} bytes wait")
        elif self._frame_since is not None and self._reading and now - self._frame_since > limits.frame_seconds:
            self.abort("slow", f"its frame is not complete after {limits.frame_seconds:g} s")
        elif now - self._last_active > limits.idle_seconds:
            log.info("link %s closed: idle for %g s", self.address, limits.idle_seconds)
            self.close()

    @property
    def unfinished(self) -> int:
        """Held requests, those not looked at, and buffers that are not written yet."""
        return self.held + len(self._out) + len(self._backlog) + bool(self._rest)

    # -- bytes in -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """asyncio: a chunk came. Serves every request in it and writes all answers at once."""
        if self._closing:
            return
        now = self._last_active = self._clock.monotonic()
        machine = self._machine
        if machine.error is not None:
            return
        if self._rest:  # more came before all was served
            self._cut(now, len(self._rest))
        self._rest, self._rest_at = machine.gather(data), 0
        if not self._rest:
            self._frame_since = (self._frame_since or now) if machine.is_inside else None
            self._note_unfinished(machine.pending_bytes)
        else:
            if self._unfinished_bytes:
                self._note_unfinished(0)
            self._serve(now)

    def eof_received(self) -> bool:
        """asyncio: the peer sends no more. No peer half-closes on purpose, so the link ends."""
        return False

    def _cut(self, now: float, frames_end: int | None = None) -> None:
        """Take commands from the chunk into the backlog: the next one, or all up to `frames_end`."""
        machine, start = self._machine, self._rest_at
        if frames_end is None:
            commands, self._rest_at = machine.cut_one(self._rest, start)
        else:
            commands, self._rest_at = machine.cut(self._rest, start), frames_end
        self._backlog.extend(commands)
        if self._rest_at == len(self._rest) or machine.error is not None:
            self._rest = b""
            if not machine.pending_bytes:
                self._frame_since = None
            else:
                if start or commands or self._frame_since is None:
                    self._frame_since = now
                self._note_unfinished(machine.pending_bytes)

    def _note_unfinished(self, size: int) -> None:
        """So many bytes of a frame that is not complete are kept now."""
        self._unfinished_bytes = size

    def _serve_run(self, turn_end: float) -> bool:
        """Let the dispatcher serve the requests at the head of the chunk together; False if it served none."""
        run = self._dispatcher.run
        if run is None or self._backlog or self._paused or not self._admits_runs():
            return False
        try:
            end = run(self, self._rest, self._rest_at, turn_end)
        except Exception as problem:  # our bug; it has stored nothing, and the ordinary path serves it all
            self._warnings.warn("run", "a run of requests from %s failed: %r", self.address, problem)
            return False
        if end == self._rest_at:
            return False
        self._rest_at = end
        if end == len(self._rest):
            self._rest = b""
            self._frame_since = None
        return True

    def _admits_runs(self) -> bool:
        """False when `_admit` might refuse a request."""
        return self.room_to_hold > 0

    @property
    def _has_more(self) -> bool:
        return bool(self._backlog or self._rest)

    def _serve(self, now: float) -> None:
        """Serves what has come, or what of it takes no turn, and stands in line for the rest."""
        if not (self._turns.is_taken and self.stops_reading):
            self._serve_until(now + self._turns.seconds, now)
            return
        self._in_chunk = True
        try:
            self._serve_run(0.0)
        finally:
            self._in_chunk = False
        if self._has_more:
            self._serve_soon()
        self._flush()

    def _serve_until(self, turn_end: float, now: float) -> None:
        backlog = self._backlog
        self._in_chunk = True
        try:
            while (backlog or self._rest) and not self._closing and not (self._paused and self.stops_reading):
                if backlog:
                    self._serve_one(backlog.popleft(), now)
                elif not self._serve_run(turn_end):
                    self._cut(now, None if self._dispatcher.run else len(self._rest))
                if self._out_bytes >= self._limits.write_high_bytes:
                    self._flush()
                if (backlog or self._rest) and self.stops_reading and self._clock.monotonic() > turn_end:
                    self._serve_soon()
                    break
        finally:
            self._in_chunk = False
        self._flush()
        if self._machine.error is not None and not backlog and not self._closing:
            self._warnings.warn(f"{self.remote[0]} garbage", "link %s closed: %s", self.address, self._machine.error)
            self.close()

    def _serve_soon(self) -> None:
        """Go on in a later turn: a thousand pulls in one chunk must not hold up everybody else's sends."""
        self._stop_reading()
        if not self._serve_planned:
            self._serve_planned = True
            self._turns.wait(self._serve_on)

    def _serve_on(self, turn_end: float) -> None:
        self._serve_planned = False
        if not self._paused and not self._closing:
            self._serve_until(turn_end, self._clock.monotonic())
            if not self._paused and not self._has_more:
                self._go_on_reading()

    def _serve_one(self, command: Command, now: float) -> None:
        if command.flag & FLAG_RESPONSE:
            if not self.pending.resolve(command):
                log.debug("late answer %d from %s dropped", command.opaque, self.address)
            return
        request = Request(command, self, now)
        reply: Reply | Held = self._admit(request) or self._dispatcher.dispatch(request)
        if reply is HELD:
            if not request.answered and not command.is_oneway:
                request.counted = True
                self.held += 1
        elif not request.answered:
            request.answered = True
            self._write_reply(request, reply)

    def _admit(self, request: Request) -> Reply | None:
        """A reply that refuses the request before it is dispatched, or None."""
        if self.room_to_hold <= 0:
            self._warnings.warn(
                f"{self.remote[0]} held",
                "%s of %s is refused as busy: %d requests of this link are held, no more may be",
                request_name(request.code),
                self.address,
                self.held,
            )
            return Reply(ResponseCode.SYSTEM_BUSY, remark=_OVERLOAD)
        return None

    # -- bytes out ----------------------------------------------------------------------------------------------

    def answer(self, request: Request, reply: Reply) -> None:
        """Writes the answer of a held request (called by Request.answer, once)."""
        if request.counted:
            self.held -= 1
        if self.closed:
            return
        self._dispatcher.finish(request, reply)
        self._write_reply(request, reply)

    def write_answers(self, answers: list[Buffer]) -> None:
        """Writes answers of a run: whole frames. Afterwards the peer may be behind (`writable`)."""
        if not self.closed:
            self._write(answers)
            if self._in_chunk and self._out_bytes >= self._limits.write_high_bytes:
                self._flush()

    @property
    def room_to_hold(self) -> int:
        """How many more requests of this link may be held."""
        return self._limits.held - self.held

    def send(self, command: Command) -> None:
        """Writes a one-way request. Nothing happens on a closed link. Raises ProtocolError when it is too large."""
        command.flag |= FLAG_ONEWAY
        self._number(command)
        self._write(self._machine.send(command))

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Writes a request; the future gets its answer, InvokeTimeout, or LinkError when the link closes."""
        if self._loop is None or self._closing:
            raise LinkError(f"link to {self.address} is closed")
        if len(self.pending) >= self._limits.pending:
            raise LinkError(
                f"{len(self.pending)} requests to {self.address} wait for an answer", hint="send more slowly"
            )
        opaque = self._number(command)
        buffers = self._machine.send(command)
        future: asyncio.Future[Command] = self._loop.create_future()
        self.pending.add(opaque, self._clock.monotonic() + timeout_ms / 1000, future)
        self._write(buffers)
        return future

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        """Asks the peer and waits for its answer. Raises InvokeTimeout or LinkError."""
        try:
            return await self.start(command, timeout_ms)
        except LinkError as problem:
            if not problem.where:
                problem.where = f"{request_name(command.code)} to {self.address}, timeout {timeout_ms:g} ms"
            raise

    def _number(self, command: Command) -> int:
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        return command.opaque

    def _write_reply(self, request: Request, reply: Reply) -> None:
        command = request.command
        if command.flag & FLAG_ONEWAY:
            return
        try:
            buffers = self._machine.send(reply.to_command(command))
        except Exception as problem:  # our bug or an answer too large: the asker must not wait, the link must not end
            log.error(
                "answer to %s of %s cannot be written: %s",
                request_name(command.code),
                self.address,
                problem,
                exc_info=not isinstance(problem, ProtocolError),
            )
            failed = Reply(ResponseCode.SYSTEM_ERROR, remark="the answer cannot be written, see the server's log")
            buffers = self._machine.send(failed.to_command(command))
        self._write(buffers)

    def _write(self, buffers: list[Buffer]) -> None:
        """Adds to the output; it leaves with the chunk, with the turn, or at the end of this turn of the loop."""
        if self._closing or self._loop is None:
            return
        self._out += buffers
        for buffer in buffers:
            self._out_bytes += len(buffer)
        if self._paused:
            if self._out_bytes > self._limits.unsent_bytes:
                self.abort("stuck", f"it does not read, {self._out_bytes} bytes wait")
        elif not self._in_chunk:
            if self._out_bytes >= self._limits.write_high_bytes:
                self._flush()  # so that `writable` is true to the facts within one turn of the loop
            elif not self._flush_planned:
                self._flush_planned = True
                self._turns.at_end(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_planned = False
        if not self._in_chunk:
            self._flush()

    def _flush(self) -> None:
        """Writes what waits, a portion of about `write_high_bytes` after the other, until the peer is behind."""
        if self._transport is None:
            return
        high = self._limits.write_high_bytes
        while self._out and not self._paused and not self._closing:
            if self._out_bytes <= high:
                portion, self._out, self._out_bytes = self._out, [], 0
            else:
                portion = self._take_portion(high)
            self._last_active = self._clock.monotonic()
            self._transport.writelines(portion)

    def _take_portion(self, high: int) -> list[Buffer]:
        size = count = 0
        for buffer in self._out:
            size += len(buffer)
            count += 1
            if size >= high:
                break
        portion = self._out[:count]
        del self._out[:count]
        self._out_bytes -= size
        return portion

    # -- back-pressure ------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """asyncio: the peer is behind by more than `write_high_bytes`."""
        self._paused = True
        self._stuck_since = self._clock.monotonic()
        if self.stops_reading:
            self._stop_reading()

    def resume_writing(self) -> None:
        """asyncio: the peer has caught up."""
        self._paused = False
        self._last_active = self._clock.monotonic()
        self._flush()
        if not self._paused and not self._in_chunk:
            self._serve(self._last_active)
        if not self._paused and not self._has_more:
            self._go_on_reading()

    @property
    def writable(self) -> bool:
        """False while the peer is behind."""
        return not self._paused and not self._closing

    def _stop_reading(self) -> None:
        if self._reading and self._transport is not None and not self._closing:
            self._reading = False
            self._transport.pause_reading()

    def _go_on_reading(self) -> None:
        if not self._reading and self._transport is not None and not self._closing:
            self._reading = True
            self._frame_since = None
            self._transport.resume_reading()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.address}{' closed' if self.closed else ''}>"
