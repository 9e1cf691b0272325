"""AutoSwitch HA seen from the master: one connection of a slave.

Owns        the order of what a slave may say, the answer to its handshake, the heads of its frames.
Must not know   sockets, who is a member of the set of replicas.

Apache's slave writes its handshake again while it waits for the answer; only the first one is answered, in one write:
the slave would begin a second handshake if the answer came in two reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketlake.base.errors import ProtocolError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.auto_switch import layout
from rocketlake.replication.dialect import Answer, LogRange, Report
from rocketlake.replication.epochs.history import EpochHistory

__all__ = ["AutoSwitchLeader", "LeaderSays"]


class LeaderSays:
    """What the master tells its slaves now."""

    def __init__(
        self,
        history: Callable[[], EpochHistory],
        end: Callable[[], PhysicalOffset],
        confirm: Callable[[], PhysicalOffset],
    ) -> None:
        """`end`: where the log ends that can be sent. `confirm`: the confirm offset."""
        self.history = history
        self.end = end
        self.confirm = confirm


class AutoSwitchLeader:
    """The master's end of one connection."""

    def __init__(self, says: LeaderSays) -> None:
        self.name = ""
        """The broker id of the slave, once it has said it."""
        self.counts = True
        self._says = says
        self._rest = b""
        self._from_last_file = False
        self._has_reported = False

    def feed(self, data: bytes) -> Iterator[Report | Answer]:
        """The answer to a handshake; the newest report of the chunk."""
        view = memoryview(self._rest + data)
        newest: int | None = None
        while len(view) >= layout.STATE.size:
            (state,) = layout.STATE.unpack_from(view)
            if state == layout.STATE_HANDSHAKE:
                size = layout.HANDSHAKE.size
                if len(view) < size:
                    break
                yield from self._greeted(layout.read_handshake(view))
            elif state == layout.STATE_TRANSFER:
                size = layout.REPORT.size
                if len(view) < size:
                    break
                newest = self._reported(*layout.REPORT.unpack_from(view))
            else:
                raise ProtocolError(
                    f"it sends a frame of state {state}", hint="see that the slave is in controller mode"
                )
            view = view[size:]
        self._rest = bytes(view)
        if newest is not None:
            yield Report(PhysicalOffset(newest))

    def _greeted(self, handshake: layout.Handshake) -> Iterator[Answer]:
        if self._has_reported:
            raise ProtocolError("it begins with a handshake again")
        if self.name:
            if self.name != str(handshake.broker_id):
                raise ProtocolError(f"it says that it is broker {handshake.broker_id}, it was {self.name}")
            return
        self.name = str(handshake.broker_id)
        self.counts = not handshake.is_learner
        self._from_last_file = handshake.from_last_file
        yield Answer(layout.answer(self._says.end(), self._says.history()))

    def _reported(self, _state: int, end: int) -> int:
        if not self.name:
            raise ProtocolError("it reports without a handshake")
        if end < 0:
            raise ProtocolError(f"it reports {end} as the end of its log")
        self._has_reported = True
        return end

    def start(self, report: PhysicalOffset, log: LogRange) -> PhysicalOffset | None:
        """Where an epoch is known: an empty slave gets all that is there, or the last file if it asks for that."""
        start = report or (log.last_file if self._from_last_file else log.start)
        return start if self._says.history().at(start) is not None else None

    def frame_end(self, offset: PhysicalOffset) -> PhysicalOffset | None:
        """Where the epoch of this byte ends."""
        return self._says.history().end_at(offset)

    def header(self, offset: PhysicalOffset, size: int) -> bytes:
        """Thirty-six bytes, with the epoch of the bytes."""
        epoch = self._says.history().at(offset)
        assert epoch is not None, "`start` has looked"
        return layout.transfer(size, offset, epoch, self._says.confirm())
