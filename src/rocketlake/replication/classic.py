"""RocketMQ's classic HA bytes (DefaultHAConnection, DefaultHAClient), both ends, without I/O.

Owns        the two layouts, the checks of what a peer may say.
Must not know   sockets, the store, when something is sent.

Slave to master: 8 bytes, where the slave's log ends. Master to slave: 8 bytes offset, 4 bytes size, then so many bytes
of the log; size 0 is a heartbeat. There is no handshake and no name: a slave is known by its host.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rocketlake.base.errors import ProtocolError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.dialect import Agreement, Answer, LogRange, Piece, Report

__all__ = ["FRAME_BYTES_MAX", "ClassicFollower", "ClassicLeader"]

FRAME_BYTES_MAX = 4 * 1024 * 1024 - 1
"""Header and body: Java's slave reads into a buffer of 4 MiB and stands still when a frame fills it."""

_REPORT = struct.Struct(">q")
_HEADER = struct.Struct(">qi")
_BEHIND_FIRST = 1
"""Offset of the second byte of a log."""


class ClassicLeader:
    """The master's end of one connection."""

    def __init__(self, host: str, *, from_last_file: bool = False) -> None:
        """`from_last_file`: an empty slave gets the last file only, as from Apache's master."""
        self.name = host
        self.counts = True
        self._from_last_file = from_last_file
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Report | Answer]:
        """The newest report of the chunk."""
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        if whole:
            (end,) = _REPORT.unpack_from(data, whole - _REPORT.size)
            if end < 0:
                raise ProtocolError(f"it reports {end} as the end of its log")
            yield Report(PhysicalOffset(end))

    def start(self, report: PhysicalOffset, log: LogRange) -> PhysicalOffset:
        """An empty slave gets all that is there. Apache's master sends it the last file only: messages are missing."""
        if report:
            return report
        return log.last_file if self._from_last_file else log.start

    def frame_end(self, _offset: PhysicalOffset) -> None:
        """No limit."""

    def header(self, offset: PhysicalOffset, size: int) -> bytes:
        """Twelve bytes."""
        return _HEADER.pack(offset, size)


class ClassicFollower:
    """The slave's end of one connection."""

    def __init__(self, copies_from: int | None = None) -> None:
        """`copies_from`: where an empty slave begins; None: where the master likes, Apache's at its last file.

        A report of 0 is no place for Apache's master. So who wants the log from 0 on asks for the byte behind it: the
        first byte of a log is the highest one of a record's size, and that is 0.
        """
        self._rest = b""
        self._offset = PhysicalOffset(0)
        self._left = 0
        self._copies_from = copies_from
        self._lacks_first = False

    def hello(self, end: PhysicalOffset) -> bytes:
        """The report: the master is silent until then."""
        if end or self._copies_from is None:
            return self.report(end)
        self._lacks_first = not self._copies_from
        return self.report(PhysicalOffset(self._copies_from or _BEHIND_FIRST))

    def report(self, end: PhysicalOffset) -> bytes:
        """Eight bytes: never anything else, the master counts in eights."""
        return _REPORT.pack(end)

    def feed(self, data: bytes) -> Iterator[Piece | Agreement]:
        """Pieces as they come: a frame need not be whole."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        position, end, view = 0, len(data), memoryview(data)
        while position < end:
            if not self._left:
                if end - position < _HEADER.size:
                    self._rest = data[position:]
                    return
                offset, self._left = _HEADER.unpack_from(data, position)
                self._check(offset, self._left)
                self._offset = PhysicalOffset(offset)
                position += _HEADER.size
                if self._lacks_first and offset == _BEHIND_FIRST:
                    self._lacks_first = False
                    yield Piece(PhysicalOffset(0), b"\0")
                if not self._left:
                    yield Piece(self._offset, b"")
                    continue
            piece = view[position : position + self._left]
            if piece:
                position += len(piece)
                self._left -= len(piece)
                yield Piece(self._offset, piece)
                self._offset += len(piece)

    def _check(self, offset: int, size: int) -> None:
        if offset < 0 or not 0 <= size <= FRAME_BYTES_MAX - _HEADER.size:
            raise ProtocolError(
                f"a frame of {size} bytes at {offset} is none of a master",
                hint="see that haMasterAddress names the haListenPort of the master, not its listenPort",
            )

    def appended(self, _end: PhysicalOffset, _confirm: PhysicalOffset | None) -> None:
        """Nothing is confirmed here."""
