"""Input: the bytes that come on one connection, served chunk by chunk and in turns.

Owns        frames and commands that are not served yet: when they are cut and served; reading from the socket.
Must not know   requests and answers (peer.py), writing (output.py), other queued work (turns.py).

Invariant: while the peer does not read, nothing more is served to it.
Invariant: a link is served for at most `turn_seconds`; the rest of its work queues in turns.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from rocketlake.net.endpoint import Endpoint
from rocketlake.net.output import Output
from rocketlake.net.request import FrameAsker
from rocketlake.protocol.command import FLAG_RESPONSE, Command
from rocketlake.protocol.connection import Connection

__all__ = ["Input", "InputOwner"]


class InputOwner(FrameAsker, Protocol):
    """The link whose bytes come in."""

    @property
    def stops_reading(self) -> bool:
        """True: the socket is not read while the peer does not read, or has had its turn."""
        ...

    @property
    def admits_runs(self) -> bool:
        """False when a request might be refused before it is dispatched."""
        ...

    def serve(self, command: Command, received: float) -> None:
        """A request of the peer."""

    def take_answer(self, command: Command) -> None:
        """An answer of the peer."""

    def note_unfinished(self, size: int) -> int:
        """`size` bytes of an incomplete frame are kept. Returns how many are kept after the link looked at them."""
        ...


class Input:
    """Received bytes of one connection, until they are served."""

    __slots__ = (
        "_backlog",
        "_dispatcher",
        "_machine",
        "_monotonic",
        "_output",
        "_owner",
        "_reading",
        "_rest",
        "_rest_at",
        "_serve_planned",
        "_stops_reading",
        "_transport",
        "_turns",
        "_unfinished_bytes",
        "_warnings",
        "frame_since",
        "last_received",
    )

    def __init__(self, owner: InputOwner, machine: Connection, output: Output, endpoint: Endpoint) -> None:
        self.last_received = 0.0
        self.frame_since: float | None = None
        """When the incomplete frame began; None without one."""
        self._owner = owner
        self._machine = machine
        self._output = output
        self._dispatcher = endpoint.dispatcher
        self._monotonic = endpoint.clock.monotonic
        self._turns = endpoint.turns
        self._warnings = endpoint.warnings
        self._stops_reading = owner.stops_reading
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._rest_at = 0
        self._backlog: deque[Command] = deque()
        self._serve_planned = False
        self._reading = True
        self._unfinished_bytes = 0

    def __len__(self) -> int:
        """Commands that are not served yet; a rest that is not cut counts as one."""
        return len(self._backlog) + bool(self._rest)

    def connect(self, transport: asyncio.Transport) -> None:
        """The connection is open."""
        self._transport = transport
        self.last_received = self._monotonic()

    def disconnect(self) -> None:
        """The connection is gone, and all that waited to be served."""
        self._backlog.clear()
        self._rest = b""

    def receive(self, data: bytes) -> None:
        """A chunk came: serve its requests, or queue for a turn."""
        if self._output.closing:
            return
        now = self.last_received = self._monotonic()
        machine = self._machine
        if machine.error is not None:
            return
        if self._rest:  # the chunk before this one is not served to its end
            self._cut(now, len(self._rest))
        self._rest, self._rest_at = machine.gather(data), 0
        if not self._rest:
            self.frame_since = (self.frame_since or now) if machine.is_inside else None
            self._note_unfinished(machine.pending_bytes)
        else:
            if self._unfinished_bytes:
                self._note_unfinished(0)
            self.serve(now)

    def serve(self, now: float) -> None:
        """Serve the received requests. If other work queues for a turn, serve plain sends only, then queue."""
        if not (self._turns.is_taken and self._stops_reading):
            self._serve_until(now + self._turns.seconds, now)
            return
        output = self._output
        output.in_chunk = True
        try:
            self._serve_run(0.0)
        finally:
            output.in_chunk = False
        if self._backlog or self._rest:
            self._serve_soon()
        output.flush()

    @property
    def reading(self) -> bool:
        """False while the socket is not read."""
        return self._reading

    def stop_reading(self) -> None:
        """Read no more from the socket."""
        if self._reading and self._transport is not None and not self._output.closing:
            self._reading = False
            self._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Read from the socket again, if all received requests are served and the peer is not behind."""
        if self._backlog or self._rest or self._output.paused:
            return
        if not self._reading and self._transport is not None and not self._output.closing:
            self._reading = True
            self.frame_since = None
            self._transport.resume_reading()

    # -- frames ----------------------------------------------------------------------------------------------------

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
                self.frame_since = None
            else:
                if start or commands or self.frame_since is None:
                    self.frame_since = now
                self._note_unfinished(machine.pending_bytes)

    def _note_unfinished(self, size: int) -> None:
        self._unfinished_bytes = self._owner.note_unfinished(size)

    # -- turns -----------------------------------------------------------------------------------------------------

    def _serve_until(self, turn_end: float, now: float) -> None:
        backlog, output, owner, stops_reading = self._backlog, self._output, self._owner, self._stops_reading
        output.in_chunk = True
        try:
            while (backlog or self._rest) and not output.closing and not (output.paused and stops_reading):
                if backlog:
                    command = backlog.popleft()
                    if command.flag & FLAG_RESPONSE:
                        owner.take_answer(command)
                    else:
                        owner.serve(command, now)
                elif not self._serve_run(turn_end):
                    self._cut(now, None if self._dispatcher.run else len(self._rest))
                if output.size >= output.high_bytes:
                    output.flush()
                if (backlog or self._rest) and stops_reading and self._monotonic() > turn_end:
                    self._serve_soon()
                    break
        finally:
            output.in_chunk = False
        output.flush()
        error = self._machine.error
        if error is not None and not backlog and not output.closing:
            self._warnings.warn(f"{owner.remote[0]} garbage", "link %s closed: %s", owner.address, error)
            owner.close()

    def _serve_run(self, turn_end: float) -> bool:
        """Let the dispatcher serve the requests at the head of the chunk together; False if it served none."""
        run, owner = self._dispatcher.run, self._owner
        if run is None or self._backlog or self._output.paused or not owner.admits_runs:
            return False
        try:
            end = run(owner, self._rest, self._rest_at, turn_end)
        except Exception as problem:  # our bug; the run has stored nothing: the ordinary path serves its requests
            self._warnings.warn("run", "a run of requests from %s failed: %r", owner.address, problem)
            return False
        if end == self._rest_at:
            return False
        self._rest_at = end
        if end == len(self._rest):
            self._rest = b""
            self.frame_since = None
        return True

    def _serve_soon(self) -> None:
        """Go on in a later turn: a thousand pulls in one chunk must not hold up the sends of other links."""
        self.stop_reading()
        if not self._serve_planned:
            self._serve_planned = True
            self._turns.wait(self._serve_on)

    def _serve_on(self, turn_end: float) -> None:
        self._serve_planned = False
        if not self._output.paused and not self._output.closing:
            self._serve_until(turn_end, self._monotonic())
            self.go_on_reading()
