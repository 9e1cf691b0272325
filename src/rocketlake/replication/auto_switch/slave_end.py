"""AutoSwitch HA seen from the slave: one connection to a master.

Owns        the order of what a master may say, which masters are refused, when an epoch is noted.
Must not know   sockets, how records are put together and appended.

The answer to the handshake is settled before anything else is looked at: the own log is cut to where both agree, and
the own end is reported at once. Apache's master waits for that report. That both agree is believed of the histories
only when a record of the newest epoch that both have is the same (epochs/marks.py).

Which epoch a byte belongs to is taken from the history in the answer, and from a frame only for an epoch that began
since: Apache's master heads the last bytes of an epoch with the next one, and a heartbeat perhaps with its first one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.auto_switch import layout
from rocketlake.replication.dialect import Agreement, Piece
from rocketlake.replication.epochs.history import Epoch, EpochHistory, agreed_end
from rocketlake.replication.epochs.kept import KeptEpochs
from rocketlake.replication.epochs.marks import MarkAt, mark_at, shared_end
from rocketlake.replication.epochs.truncation import Truncation
from rocketlake.store.durability import Stage
from rocketlake.store.message_store import MessageStore

__all__ = ["AutoSwitchFollower", "MastersLog"]

_EPOCH_MAX = (1 << 31) - 1


class MastersLog(NamedTuple):
    """What the frames do not tell of the master's log."""

    start: PhysicalOffset
    """Its first byte that is still there."""
    file_bytes: int
    """Length of each of its files."""


class AutoSwitchFollower:
    """The slave's end of one connection."""

    def __init__(
        self,
        store: MessageStore,
        epochs: KeptEpochs,
        broker_id: int,
        *,
        least_epoch: Callable[[], int] = lambda: -1,
        most_epoch: Callable[[], int] = lambda: _EPOCH_MAX,
        from_last_file: bool = False,
        is_learner: bool = False,
        masters_mark: MarkAt | None = None,
        admission: Callable[[], Awaitable[MastersLog | None]] | None = None,
    ) -> None:
        """`broker_id`: ours. `least_epoch`, `most_epoch`: a master whose newest epoch is older or newer is refused.

        `masters_mark`: of a record in the log of this master; None: nobody can be asked. `admission`: wait until this
        master says that our reports count for us, on a connection that is open by now; None: it tells no more.
        """
        self._store = store
        self._epochs = epochs
        self._broker_id = broker_id
        self._least_epoch, self._most_epoch = least_epoch, most_epoch
        self._flags = from_last_file, is_learner
        self._masters_mark = masters_mark
        self._admission = admission
        self._agrees = False
        """True from the cut on."""
        self._masters: EpochHistory | None = None
        """The epochs of the master; None before its answer."""
        self._rest = b""
        self._offset = PhysicalOffset(0)
        self._left = 0
        self._confirm = PhysicalOffset(0)

    def hello(self, _end: PhysicalOffset) -> bytes:
        """The handshake, once."""
        return layout.HANDSHAKE.pack(layout.STATE_HANDSHAKE, *self._flags, self._broker_id)

    def report(self, end: PhysicalOffset) -> bytes:
        """Twelve bytes; none before both logs agree: ours may have other records up to there than the master's."""
        if not self._agrees:
            return b""
        return layout.REPORT.pack(layout.STATE_TRANSFER, end)

    # -- what the master says ------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> Iterator[Piece | Agreement]:
        """Pieces as they come: a frame need not be whole."""
        view, self._rest = memoryview(self._rest + data), b""
        while view:
            if self._left:
                piece = view[: self._left]
                view = view[len(piece) :]
                yield from self._body(piece)
            elif (taken := self._frame(view)) is None:
                self._rest = bytes(view)
                return
            else:
                event, size = taken
                view = view[size:]
                yield from event

    def _frame(self, view: memoryview) -> tuple[Iterator[Piece | Agreement], int] | None:
        """What the frame at the start of `view` leads to, and the length of its head; None while bytes are missing."""
        if len(view) < layout.STATE.size:
            return None
        (state,) = layout.STATE.unpack_from(view)
        if state == layout.STATE_HANDSHAKE and self._masters is None:
            answered = layout.read_answer(view)
            return answered and (self._answered(answered[0]), answered[1])
        if state == layout.STATE_TRANSFER and self._masters is not None:
            head = layout.read_transfer(view)
            return head and (self._begun(head[0]), head[1])
        raise ProtocolError(
            f"it sends a frame of state {state}",
            hint="see that the master is in controller mode and that its HA address is its haListenPort",
        )

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _answered(self, master: layout.Answered) -> Iterator[Agreement]:
        self._masters = master.history

        async def settle() -> bytes:
            self._check(master)
            log = None
            if self._admission is not None:
                log = await self._admission()
                self._check(master)  # the controller may have named a newer master meanwhile
            store = self._store
            if log is not None:
                self._check_files(log)
            own_end = store.max_physical_offset
            point = agreed_end(self._epochs.history, own_end, master.history, master.end)
            if point is None:
                raise StoreError(
                    f"nothing says up to where the log agrees with its master's: epochs {self._epochs.history} up to"
                    f" {own_end} here, {master.history} up to {master.end} there",
                    hint="empty the store of this replica and have it filled anew by its master",
                )
            shared = await self._shared(point, master)
            if log is not None and own_end and shared < log.start:
                raise StoreError(
                    f"the log of the master begins at {log.start}, and this replica has it up to {shared}: what lies"
                    " between has expired at the master (fileReservedTime) while this replica was away",
                    hint="empty the store of this replica, its master fills it anew",
                )
            await Truncation(store, self._epochs).to(shared)
            if store.max_physical_offset == master.end and master.history.last is not None:
                await self._epochs.follow(*master.history.last)
            self._agrees = True
            return self.report(store.max_physical_offset)

        yield Agreement(settle)

    async def _shared(self, point: PhysicalOffset, master: layout.Answered) -> PhysicalOffset:
        """Where the logs part in truth; `point`: by the histories. Raises StoreError if that was confirmed here."""
        store, epochs = self._store, self._epochs.history
        if self._masters_mark is None:
            return point

        async def mine(offset: PhysicalOffset) -> str:
            return await store.read(lambda: mark_at(store.log, offset))

        shared = await shared_end(
            epochs, point, store.log.file_size, mine, self._masters_mark, damaged=store.damaged_from
        )
        self._check(master)  # while the marks came the controller may have named a newer master
        confirmed = store.durability.confirmed.value
        if shared < point and shared < confirmed:
            raise StoreError(
                f"epoch {epochs.number_at(shared)} has other records in the log of the master, from {shared} on, and"
                f" here they are confirmed up to {confirmed}: the register of the controller was put back, and gave"
                " this epoch twice, or one of the two logs is damaged there",
                hint="save the store of this replica if its messages are wanted, perhaps nobody else has them; then"
                " empty it and have it filled anew by its master",
            )
        return shared

    def _check_files(self, log: MastersLog) -> None:
        """No record lies across the end of a file, so both logs need files of one length."""
        own = self._store.log.file_size
        if log.file_bytes != own:
            raise StoreError(
                f"the files of the master's log have {log.file_bytes} bytes, those of this replica {own}",
                hint=f"set mappedFileSizeCommitLog={log.file_bytes} here, and start with an empty store",
            )

    def _check(self, master: layout.Answered) -> None:
        last = master.history.last
        newest = -1 if last is None else last.number
        own = self._epochs.history.number_at(self._store.max_physical_offset - 1)
        if newest < max(own, self._least_epoch()):
            raise ProtocolError(
                f"its newest epoch is {newest}, this replica has heard of {max(own, self._least_epoch())}: it is no"
                " master any more",
                hint="wait: the controller tells who is the master",
            )
        self._check_known(newest)

    def _check_known(self, epoch: int) -> None:
        """An epoch that was noted is told to the controller, which elects nobody who knows less."""
        if epoch > self._most_epoch():
            raise ProtocolError(
                f"it is in epoch {epoch}, and the controller has named {self._most_epoch()} as the newest one",
                hint="wait until the controller has named it; if it stays so, see that haListenPort of the master is"
                " reached and no other program",
            )

    # -- the log -------------------------------------------------------------------------------------------------------

    def _begun(self, head: layout.Transfer) -> Iterator[Piece | Agreement]:
        self._note(head)
        self._confirm = head.confirm
        self._offset, self._left = head.offset, head.size
        if not head.size and head.offset >= 0:
            if self._masters is not None and self._masters.at(head.offset) is not None:
                yield from self._noted(head.offset)
            yield Piece(head.offset, b"", confirm=head.confirm)

    def _note(self, head: layout.Transfer) -> None:
        """The master may have begun an epoch since it answered: at its end, so no byte of it came before this frame."""
        assert self._masters is not None, "it has answered"
        number, start = head.epoch
        last = self._masters.last
        if last is None or number > last.number:
            if not head.offset <= start <= head.offset + head.size:
                raise ProtocolError(f"it sends {head.size} bytes at {head.offset} of epoch {number}, from {start} on")
            self._check_known(number)
            self._masters = self._masters.begun(number, start)

    def _body(self, piece: memoryview) -> Iterator[Piece | Agreement]:
        """The bytes of a frame, cut where epochs end."""
        assert self._masters is not None, "it has answered"
        while piece:
            yield from self._noted(self._offset)
            border = self._masters.end_at(self._offset)
            part = piece if border is None else piece[: border - self._offset]
            piece = piece[len(part) :]
            self._left -= len(part)
            offset, self._offset = self._offset, self._offset + len(part)
            yield Piece(offset, part, confirm=self._confirm)

    def _noted(self, offset: PhysicalOffset) -> Iterator[Agreement]:
        """Have the epoch of the byte at `offset` on disk before the byte is appended."""
        assert self._masters is not None, "it has answered"
        epoch, known = self._masters.at(offset), self._epochs.history.last
        if epoch is None:
            raise ProtocolError(f"it sends the log from {offset} on, its oldest epoch is {self._masters.first}")
        if known is None or epoch.number > known.number:

            async def settle(epoch: Epoch = epoch) -> bytes:
                await self._epochs.follow(*epoch)
                return b""

            yield Agreement(settle)

    def appended(self, end: PhysicalOffset, confirm: PhysicalOffset | None) -> None:
        """What the master has confirmed and this log has, is confirmed here."""
        if confirm is not None:
            self._store.durability.advance(Stage.CONFIRMED, PhysicalOffset(min(confirm, end)))
