"""One connection of a slave: its reports come in, frames go out.

Owns        the place up to which this slave was sent the log, what a report must not say, when a frame may be sent.
Must not know   listening, other slaves, what an ack releases (leader.py, ack_set.py), bytes of frames (dialect.py).

Nothing is sent before the first report. A report beyond what was sent is a lie (a health check, another protocol): the
connection ends, so that no message counts as replicated by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from rocketlake.auth.action import AccessRefused
from rocketlake.auth.proof import ANSWER_BYTES_MAX, Proof, new_question, read_answer
from rocketlake.base.clock import Clock
from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.base.figures.histogram import Histogram
from rocketlake.base.logs import RareWarnings
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.allowance import Allowance
from rocketlake.replication.dialect import Answer, LeaderDialect, LogRange
from rocketlake.replication.outgoing import Outgoing
from rocketlake.replication.settings import StreamSettings
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore

__all__ = ["CheckProof", "LinkParts", "SlaveLink", "SlaveOwner"]

_HIGH_BYTES = 1024 * 1024
_TURN_BYTES = 1024 * 1024
"""So much is sent before other work gets its turn."""
_WRITE_BYTES = 256 * 1024
_NOWHERE = PhysicalOffset(-1)
_UNPROVEN_BYTES_MAX = 256 + ANSWER_BYTES_MAX
"""Of a handshake, some reports and the answer to the question who it is."""
_UNPROVEN = (
    "it does not say who it is, as Apache's slaves do not; a slave of ours needs innerClientAuthenticationCredentials,"
    " Apache's needs haAllowUnauthenticated=true here"
)

CheckProof = Callable[[str, bytes, Proof], None]
"""(host, question, answer): return, or raise AccessRefused."""


class SlaveOwner(Protocol):
    """The leader, as its links see it."""

    def opened(self, link: SlaveLink) -> bool:
        """A connection came; False: it must go."""

    def reported(self, link: SlaveLink) -> None:
        """`link.ack` is new."""

    def lost(self, link: SlaveLink) -> None:
        """The connection is gone."""

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Call `call` after so many seconds."""


@dataclass(frozen=True, slots=True)
class LinkParts:
    """What all links of one leader share."""

    owner: SlaveOwner
    store: MessageStore
    settings: StreamSettings
    clock: Clock
    dialect: Callable[[str], LeaderDialect]
    """Makes the dialect for a connection from this host."""
    warnings: RareWarnings
    check: CheckProof | None
    """Who may have the log; None: everybody who asks."""
    ack_seconds: Histogram
    """Times from the sending of a place of the log until a slave reported it."""


class SlaveLink(asyncio.Protocol):
    """One connection."""

    def __init__(self, parts: LinkParts) -> None:
        self.host = ""
        self.address = ""
        self.certificate_name = ""
        self.ack = _NOWHERE
        """Up to here the slave has the log; -1 before its first report."""
        self.sent = _NOWHERE
        """Up to here it was sent."""
        self.is_replaced = False
        """True: a newer connection of the same replica has reported, and its acks count in place of this one's."""
        self.is_proven = parts.check is None
        """True when it is known who the slave is, or nobody asks. Until then nothing that it says is looked at."""
        self.bytes_per_second = 0
        """Of the log, in the second before the last."""
        self.dialect: LeaderDialect
        self._owner = parts.owner
        self._store = parts.store
        self._settings = parts.settings
        self._clock = parts.clock
        self._make_dialect = parts.dialect
        self._warnings = parts.warnings
        self._check = parts.check
        self._question = b""
        self._unproven = b""
        self._ack_seconds = parts.ack_seconds
        self._outgoing = Outgoing(parts.store, parts.settings.batch_bytes)
        self._allowance = Allowance(parts.settings.bytes_per_second)
        self._transport: asyncio.Transport | None = None
        self._paused_at = 0.0
        self._is_paused = False
        self._waits = False
        """For cold bytes, for its next turn, or for its allowance."""
        self._is_started = False
        """True when it is known from where on the slave wants the log."""
        self._heard_at = self._wrote_at = self._counted_at = parts.clock.monotonic()
        self._counted = 0
        """Bytes of the log since `_counted_at`."""
        self._sample: tuple[float, PhysicalOffset] | None = None
        """A place of the log and when it was sent, until the slave reports it: one at a time is timed."""
        self._asked_at: float | None = None
        """Since then the slave has something to report, and has said nothing."""

    # -- asyncio -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A slave, or anything else that connects."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.host, self.address = str(peer[0]), f"{peer[0]}:{peer[1]}"
        self.dialect = self._make_dialect(self.host)
        self._transport.set_write_buffer_limits(high=_HIGH_BYTES)
        if not self._owner.opened(self):
            self._transport.abort()

    def secured(self, transport: asyncio.Transport) -> None:
        """The slave begins to encrypt, with its first byte. One that does not end the handshake is silent: `look`."""
        self._transport = transport
        transport.set_write_buffer_limits(high=_HIGH_BYTES)

    def known_as(self, certificate_name: str) -> None:
        """The connection is encrypted, and the slave has this name by its certificate; "" without one."""
        self.certificate_name = certificate_name

    def data_received(self, data: bytes) -> None:
        """Reports."""
        now = self._clock.monotonic()
        try:
            if not self.is_proven:  # not heard of before: who only talks is silent after a while
                data = self._prove(data)
            else:
                self._heard_at = now
            for event in self.dialect.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                if isinstance(event, Answer):
                    self._write([event.data])
                else:
                    self._take(event.end)
        except ProtocolError as error:
            self.drop("report", str(error))
        except AccessRefused as error:
            self.drop("refused", str(error))
        self._asked_at = now if self.sent > self.ack else None

    def _prove(self, data: bytes) -> bytes:
        """What may be looked at of all that came: nothing until the slave has shown who it is.

        It is asked behind its first bytes: they tell whether it encrypts. Raises AccessRefused, ProtocolError.
        """
        self._unproven += data
        if not self._question:
            self._question = new_question()
            self._write([self._question])
        found = read_answer(self._unproven)
        if found is None:
            if len(self._unproven) > _UNPROVEN_BYTES_MAX:
                raise AccessRefused(_UNPROVEN)
            return b""
        before, proof, behind = found
        assert self._check is not None
        self._check(self.host, self._question, proof)
        self.is_proven, self._unproven = True, b""
        return before + behind

    def pause_writing(self) -> None:
        """The slave is behind by what the transport keeps."""
        self._is_paused, self._paused_at = True, self._clock.monotonic()

    def resume_writing(self) -> None:
        """It reads again."""
        self._is_paused = False
        self.send()

    def connection_lost(self, _error: Exception | None) -> None:
        """It is over."""
        if self._question and not self.is_proven:
            self._warnings.warn(f"{self.host} refused", "slave %s gets nothing: %s", self.address, _UNPROVEN)
        self._transport = None
        self._owner.lost(self)

    # -- reports -------------------------------------------------------------------------------------------------------

    def _take(self, end: PhysicalOffset) -> None:
        is_first = self.ack < 0
        most = self._store.log.max_offset if is_first else self.sent
        if end > most:
            what = "this log ends at" if is_first else "it was sent the log up to"
            self.drop("ahead", f"it says that its log ends at {end}, {what} {most}")
            return
        if end < self.ack:
            self.drop("back", f"it says that its log ends at {end}, before it was {self.ack}")
            return
        self.ack = end
        if self._sample is not None and end >= self._sample[1]:
            self._ack_seconds.note(self._clock.monotonic() - self._sample[0])
            self._sample = None
        if is_first:
            self.sent = end
            key = f"{self.host} {self.dialect.name} follows"
            self._warnings.info(key, "slave %s follows from %d on", self.address, end)
        self._owner.reported(self)
        self.send()

    # -- frames --------------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send what there is, as far as it may be sent now. Called after each append, so it ends soon."""
        if self._transport is None or self._transport.is_closing():
            return  # what it waited for came when the slave was gone
        if self._is_paused or self._waits or not self._starts():
            return
        sent = 0
        buffers: list[bytes | memoryview] = []
        size = 0
        try:
            while sent < _TURN_BYTES and not self._is_paused:
                if pause := self._allowance.pause(self._clock.monotonic()):
                    self._wait(pause)
                    break
                body = self._outgoing.cut(self.sent, self.dialect.frame_end(self.sent))
                if not body:
                    break
                buffers += self.dialect.header(self.sent, len(body)), body
                self._allowance.spend(len(body))
                self.sent += len(body)
                size += len(body)
                sent += len(body)
                if size >= _WRITE_BYTES:
                    self._write(buffers)
                    buffers, size = [], 0
            else:
                if not self._is_paused:
                    self._wait(0.0)
        except NotInMemory as cold:
            self._waits = True
            self._store.load(cold.parts, self._brought)
        except StoreError as error:
            self.drop("gone", str(error))
        self._counted += sent
        if sent and self._asked_at is None:
            self._asked_at = self._clock.monotonic()
        if sent and self._sample is None:
            self._sample = self._clock.monotonic(), self.sent
        if buffers:
            self._write(buffers)

    def _starts(self) -> bool:
        """True when it is known from where on the slave wants the log."""
        if self._is_started:
            return True
        if self._transport is None or self.ack < 0:
            return False
        log = self._store.log
        last = log.list.last
        first = log.min_offset
        start = self.dialect.start(self.ack, LogRange(first, first if last is None else last.start, log.max_offset))
        if start is not None:
            self.sent, self._is_started = start, True
        return self._is_started

    def _write(self, buffers: list[bytes | memoryview]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._wrote_at = self._clock.monotonic()
            self._transport.writelines(buffers)

    def _wait(self, seconds: float) -> None:
        self._waits = True
        self._owner.later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._waits = False
        self.send()

    def _brought(self, error: Exception | None) -> None:
        if error is not None:
            self.drop("disk", f"the log cannot be read at {self.sent}: {error}")
        self._go_on()

    # -- time ----------------------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called a few times a second: a heartbeat, or the end of a connection that is dead or stuck."""
        if now - self._counted_at >= 1:
            self.bytes_per_second = int(self._counted / (now - self._counted_at))
            self._counted_at, self._counted = now, 0
        silence = self._settings.silence_seconds
        if now - self._heard_at > silence:
            self.drop("silent", f"nothing came from it for {silence:g} s (haHousekeepingInterval)")
        elif self._asked_at is not None and now - self._asked_at > self._settings.answer_seconds:
            self.drop("mute", f"it was sent the log up to {self.sent}, and has said nothing since")
        elif self._is_paused and now - self._paused_at > silence:
            self.drop("stuck", f"it has read nothing for {silence:g} s (haHousekeepingInterval)")
        elif now - self._wrote_at > self._settings.heartbeat_seconds and not self._is_paused and self._starts():
            self._write([self.dialect.header(self.sent, 0)])

    def drop(self, kind: str, why: str) -> None:
        """End the connection; the log says why, for one host and kind now and then."""
        if self._transport is not None and not self._transport.is_closing():
            self._warnings.warn(f"{self.host} {kind}", "slave %s is not served any more: %s", self.address, why)
            self._transport.abort()

    def close(self) -> None:
        """End it without a word."""
        if self._transport is not None:
            self._transport.abort()
