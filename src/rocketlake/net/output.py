"""Output: the bytes that leave on one connection.

Owns        buffers that are not written yet: the time they leave, their portions, the limit on those that wait.
Must not know   frames, requests.

Invariant: all answers of one received chunk leave in one write call, or in portions of `write_high_bytes`.
Invariant: nothing is written while the peer is behind; more than `unsent_bytes` never wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rocketlake.net.endpoint import Endpoint
from rocketlake.protocol.command import Buffer

__all__ = ["Output"]


class Output:
    """Unwritten buffers of one connection, in order. Nothing is kept before `connect` and while `closing`."""

    __slots__ = (
        "_buffers",
        "_flush_planned",
        "_monotonic",
        "_overflowed",
        "_transport",
        "_turns",
        "_unsent_bytes",
        "behind_since",
        "closing",
        "high_bytes",
        "in_chunk",
        "last_written",
        "paused",
        "size",
    )

    def __init__(self, endpoint: Endpoint, overflowed: Callable[[], None]) -> None:
        """`overflowed` is called when more than `unsent_bytes` wait for a peer that is behind."""
        self.high_bytes = endpoint.limits.write_high_bytes
        self.size = 0
        """Unwritten bytes."""
        self.in_chunk = False
        """A received chunk is being served: its answers leave together, at its end."""
        self.paused = False
        """The peer is behind: it does not read what was written."""
        self.behind_since = 0.0
        self.last_written = 0.0
        self.closing = False
        self._unsent_bytes = endpoint.limits.unsent_bytes
        self._monotonic = endpoint.clock.monotonic
        self._turns = endpoint.turns
        self._overflowed = overflowed
        self._transport: asyncio.Transport | None = None
        self._buffers: list[Buffer] = []
        self._flush_planned = False

    def __len__(self) -> int:
        return len(self._buffers)

    def connect(self, transport: asyncio.Transport) -> None:
        """The connection is open."""
        transport.set_write_buffer_limits(high=self.high_bytes, low=self.high_bytes // 4)
        self._transport = transport
        self.last_written = self._monotonic()

    def disconnect(self) -> None:
        """The connection is gone: drop the buffers."""
        self.closing = True
        self.paused = False
        self.size = 0
        self._buffers.clear()

    def write(self, buffers: list[Buffer]) -> None:
        """Add buffers; they leave with the chunk, with the turn, or at the end of this turn of the loop."""
        if self.closing or self._transport is None:
            return
        self._buffers += buffers
        for buffer in buffers:
            self.size += len(buffer)
        if self.paused:
            if self.size > self._unsent_bytes:
                self._overflowed()
        elif not self.in_chunk:
            if self.size >= self.high_bytes:
                self.flush()  # so that `paused` is up to date within one turn of the loop
            elif not self._flush_planned:
                self._flush_planned = True
                self._turns.at_end(self._flush_now)

    def write_now(self, buffers: list[Buffer]) -> None:
        """Add buffers, and write at once unless the peer is behind."""
        in_chunk, self.in_chunk = self.in_chunk, True
        self.write(buffers)
        self.in_chunk = in_chunk
        self.flush()

    def write_answers(self, answers: list[Buffer]) -> None:
        """Add answers of a run: whole frames. Afterwards the peer may be behind."""
        self.write(answers)
        if self.in_chunk and self.size >= self.high_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffers, one portion of about `high_bytes` after the other, until the peer is behind."""
        if self._transport is None:
            return
        while self._buffers and not self.paused and not self.closing:
            if self.size <= self.high_bytes:
                portion, self._buffers, self.size = self._buffers, [], 0
            else:
                portion = self._take_portion()
            self.last_written = self._monotonic()
            self._transport.writelines(portion)

    def pause(self) -> None:
        """The peer is behind by more than `high_bytes`."""
        self.paused = True
        self.behind_since = self._monotonic()

    def resume(self) -> None:
        """The peer has caught up."""
        self.paused = False
        self.last_written = self._monotonic()
        self.flush()

    def _flush_now(self) -> None:
        self._flush_planned = False
        if not self.in_chunk:
            self.flush()

    def _take_portion(self) -> list[Buffer]:
        size = count = 0
        for buffer in self._buffers:
            size += len(buffer)
            count += 1
            if size >= self.high_bytes:
                break
        portion = self._buffers[:count]
        del self._buffers[:count]
        self.size -= size
        return portion
