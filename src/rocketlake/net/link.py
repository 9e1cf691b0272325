"""Link: one connection seen from our side, in both roles: its requests are served, and we ask.

Owns        the life of a connection; its parts: bytes in (input.py), bytes out (output.py), our requests (asked.py).
Must not know   listening, connecting, what a request code means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final, cast

from rocketlake.base.callbacks import call_each
from rocketlake.base.logs import get_logger
from rocketlake.net.asked import Asked, LinkLost
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.input import Input
from rocketlake.net.output import Output
from rocketlake.net.peer import Peer
from rocketlake.protocol.command import Buffer, Command
from rocketlake.protocol.connection import Connection

log: Final = get_logger(__name__)


class Link(Peer, asyncio.Protocol):
    """One connection. Created before it is connected; dead after `connection_lost`, for good."""

    stops_reading: ClassVar[bool] = True
    """Stop reading from a peer that does not read. A client must not: its server may be waiting for it to read."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._clock = endpoint.clock
        self._transport: asyncio.Transport | None = None
        self._machine = Connection(endpoint.codec, endpoint.limits.wire)
        self._output = Output(endpoint, self._stuck)
        self._input = Input(self, self._machine, self._output, endpoint)
        self._closing_since = 0.0
        self._shaking_since: float | None = None
        """When the peer began to encrypt; None when that is done, or it does not."""
        self.asked = Asked(self, self._write_request, endpoint.limits.pending, endpoint.clock)

    # -- life ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the transport is there."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.remote = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else (str(peer), 0)
        self.address = f"{self.remote[0]}:{self.remote[1]}"
        self._output.connect(self._transport)
        self._input.connect(self._transport)

    def secured(self, transport: asyncio.Transport) -> None:
        """The peer begins to encrypt, with its first byte: this transport is used from now on."""
        self._transport = transport
        self._shaking_since = self._clock.monotonic()
        self._output.connect(transport)
        self._input.connect(transport)

    def known_as(self, certificate_name: str) -> None:
        """The connection is encrypted, and the peer has this name by its certificate; "" without one."""
        self._shaking_since = None
        self.is_encrypted, self.certificate_name = True, certificate_name

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is gone."""
        self.closed = True
        self._output.disconnect()
        self._input.disconnect()
        self.asked.fail_all(f"link to {self.address} closed" + (f": {exc}" if exc else ""))
        call_each(self.on_close, self)

    def close(self) -> None:
        """Closes after what is written is sent. Callable at any time, more than once."""
        if self._transport is not None and not self._output.closing:
            self._output.flush()
            self._end(self._transport.close)

    def abort(self, kind: str, why: str) -> None:
        """Closes at once. The log says why; a host that is closed for the same `kind` again and again fills no log."""
        if self._transport is not None and not self.closed:
            self._warnings.warn(f"{self.remote[0]} {kind}", "link %s closed: %s", self.address, why)
            self._end(self._transport.abort)

    def _end(self, end: Callable[[], None]) -> None:
        self._output.closing = True
        self._closing_since = self._clock.monotonic()
        end()

    def sweep(self, now: float) -> None:
        """Called about once a second with monotonic time: closes an idle, stuck or endlessly slow peer."""
        limits, output, frame_since = self._limits, self._output, self._input.frame_since
        if self.closed:
            return
        if output.closing:
            if now - self._closing_since > limits.stuck_seconds:
                self.abort("stuck", "it does not take its last bytes")
        elif output.paused and now - output.behind_since > limits.stuck_seconds:
            self._stuck()
        elif self._shaking_since is not None and now - self._shaking_since > limits.handshake_seconds:
            self.abort("handshake", f"its TLS handshake is not over after {limits.handshake_seconds:g} s")
        elif frame_since is not None and self._input.reading and now - frame_since > limits.frame_seconds:
            self.abort("slow", f"its frame is not complete after {limits.frame_seconds:g} s")
        elif now - max(self._input.last_received, output.last_written) > limits.idle_seconds:
            log.info("link %s closed: idle for %g s", self.address, limits.idle_seconds)
            self.close()

    def _stuck(self) -> None:
        self.abort("stuck", f"it does not read, {self._output.size} bytes wait")

    @property
    def unfinished(self) -> int:
        """Held requests, requests that are not served yet, and buffers that are not written yet."""
        return self.held + len(self._output) + len(self._input)

    # -- bytes in --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """asyncio: a chunk came. Serves every request in it and writes all answers at once."""
        self._input.receive(data)

    def eof_received(self) -> bool:
        """asyncio: the peer sends no more. No peer half-closes on purpose, so the link ends."""
        return False

    @property
    def admits_runs(self) -> bool:
        """False when `_admit` might refuse a request."""
        return self.room_to_hold > 0

    def take_answer(self, command: Command) -> None:
        """The peer has answered a request of ours."""
        if not self.asked.resolve(command):
            log.debug("late answer %d from %s dropped", command.opaque, self.address)

    def note_unfinished(self, size: int) -> int:
        """`size` bytes of an incomplete frame are kept."""
        return size

    # -- bytes out -------------------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """False while the peer is behind."""
        output = self._output
        return not output.paused and not output.closing

    def pause_writing(self) -> None:
        """asyncio: the peer is behind by more than `write_high_bytes`."""
        self._output.pause()
        if self.stops_reading:
            self._input.stop_reading()

    def resume_writing(self) -> None:
        """asyncio: the peer has caught up."""
        output = self._output
        output.resume()
        if not output.paused and not output.in_chunk:
            self._input.serve(output.last_written)
        self._input.go_on_reading()

    def write_answers(self, answers: list[Buffer]) -> None:
        """Writes the answers of a run: whole frames. Afterwards the peer may be behind (`writable`)."""
        self._output.write_answers(answers)

    def send(self, command: Command) -> None:
        """Writes a one-way request. Nothing happens on a closed link. Raises ProtocolError when it is too large."""
        self.asked.send(command)

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Writes a request; the future gets its answer, InvokeTimeout, or LinkLost when the link closes."""
        if self._transport is None or self._output.closing:
            raise LinkLost(f"link to {self.address} is closed")
        return self.asked.start(command, timeout_ms)

    def _write_request(self, command: Command) -> None:
        self._output.write(self._machine.send(command))

    def _write_answer(self, answer: Command) -> None:
        self._output.write(self._machine.send(answer))
