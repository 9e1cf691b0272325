"""Fills the ledger at a start, from op messages, the log and the half messages themselves.

Owns        the search for the ends before the start, in pieces: a busy log has gigabytes behind a half message that
            waits, and a broker that becomes the master goes on to send heartbeats.
Must not know   requests, how ends come in.

Every half message below the saved progress is ended or was put back. Behind the progress
1. op messages name the half messages that are ended;
2. an end whose op message was lost left its committed message, or its copy in TRANS_CHECK_MAX_TIME_TOPIC, in the log
   behind the last op message that has __RL_ENDS, and behind the first of these half messages;
3. of several copies of one half message the last one stands for the transaction.
So a half message whose committed message is in the log is never asked about again, and never committed twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.base.crc32 import crc32
from rocketlake.base.logs import get_logger
from rocketlake.broker.stored_message import read_message
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.committed import committed_in
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import REMOVE_TAG, TransactionOps, half_offsets
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, OP_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["Recovery"]

_log = get_logger(__name__)

_BATCH = 64
_CHUNK = 256 << 10
_End = tuple[PhysicalOffset, Standing]
"""(physical offset of the record that tells the end, how the transaction ended)."""
_Twin = tuple[str, int, int]
"""(unique key, time of birth, checksum of the body): all copies of a half message have them in common.

Apache's copies carry no name. A copy that a power cut tore may have lost its name: no checksum covers properties.
"""
_Place = tuple[PhysicalOffset, _Twin | None]
"""(physical offset, at 0 what all copies of the half message have in common)."""


class Recovery:
    """One start."""

    def __init__(
        self, store: MessageStore, position: tuple[QueueOffset, QueueOffset], ledger: HalfLedger, ops: TransactionOps
    ) -> None:
        """`position`: the saved progress (half offset, op offset).

        The log is dispatched up to its end at the start. Messages behind it change nothing: no transaction ends while
        the ledger is closed, and a half message among them is open.
        """
        half_offset, op_offset = position
        self._store = store
        self._ledger = ledger
        self._ops = ops
        self._half_at, self._half_end = half_offset, store.max_offset(HALF_TOPIC, HALF_QUEUE)
        self._op_offset = op_offset
        self._op_at, self._op_end = QueueOffset(max(0, op_offset - 1)), store.max_offset(OP_TOPIC, HALF_QUEUE)
        self._log_at = self._log_start = PhysicalOffset(0)
        self._log_end, self._chunk = store.max_physical_offset, _CHUNK
        self._named: dict[QueueOffset, PhysicalOffset] = {}
        """Physical offset of the last op message that names a half message."""
        self._all_ends_before = PhysicalOffset(-1)
        """Op messages name every end before this place of the log; -1: no op message says so."""
        self._ends_by_name: dict[QueueOffset, _End] = {}
        self._ends_by_place: dict[_Place, _End] = {}
        """By the place of a half message that was never put back."""
        self._ends_by_twin: dict[_Twin, _End] = {}
        self._found: list[tuple[QueueOffset, PhysicalOffset, QueueOffset]] = []
        """(queue offset, physical offset, name) of half messages that no op message names."""
        self._names_by_twin: dict[_Twin, QueueOffset] = {}
        if half_offset >= self._half_end:
            ledger.begin(half_offset, self._op_end)
            self._parts = [self._open]
        else:
            ledger.begin(half_offset, op_offset)
            self._parts = [
                self._read_ops, self._find_start, self._read_log, self._read_given_up, self._read_halves, self._open
            ]  # fmt: skip

    def step(self) -> bool:
        """Do the next piece, of some milliseconds at most; True when the ledger is filled, and open.

        Raises NotInMemory; the next step does the same piece then.
        """
        if self._parts[0]():
            del self._parts[0]
        return not self._parts

    def _read_ops(self) -> bool:
        """Read op messages. The one before the progress may say that every end before it is named."""
        entries = self._entries(OP_TOPIC, self._op_at, self._op_end)
        for physical_offset in entries:
            message = read_message(self._store, physical_offset)
            if message is not None and (message.topic, message.queue_offset) == (OP_TOPIC, self._op_at):
                self._note_op(message)
            self._op_at += 1
        return not entries

    def _note_op(self, message: StoredMessage) -> None:
        if message.tags != REMOVE_TAG:
            return
        if crc32(message.body) != message.body_crc:
            # It may name others than those that ended. They count as open; those that were committed are found.
            _log.error("the op message at %d is damaged, it names no end of a transaction", message.physical_offset)
            return
        if names.ALL_ENDS in message.properties:
            self._all_ends_before = message.physical_offset
        if message.queue_offset >= self._op_offset:
            named = list(half_offsets(message.body))
            self._ledger.named(message.queue_offset, named)
            self._named.update(dict.fromkeys(named, message.physical_offset))

    def _find_start(self) -> bool:
        """From where on the log may have ends that no op message names: they lie behind the half messages they end."""
        first = self._entries(HALF_TOPIC, self._half_at, self._half_end)[:1]
        self._log_at = self._log_start = max(self._all_ends_before, *first, PhysicalOffset(0))
        return True

    def _read_log(self) -> bool:
        """Look at a piece of the log for committed messages."""
        part = self._store.log_part(self._log_at, self._chunk)
        if part is None or part.start >= self._log_end:
            return True
        messages, taken, is_end = committed_in(part.view, part.start)
        for message in messages:
            end = message.physical_offset, Standing.COMMITTED
            self._ends_by_twin[_twin(message)] = end
            if names.TRANSACTION_PREPARED_QUEUE_OFFSET in message.properties:
                self._ends_by_name[halves.prepared_offset(message)] = end
            else:
                self._ends_by_place[_place(message.prepared_transaction_offset, message)] = end
        is_file_end = is_end or (not taken and len(part.view) < self._chunk)
        self._log_at = part.file_end if is_file_end else PhysicalOffset(part.start + taken)
        self._chunk = _CHUNK if taken or is_file_end else 2 * self._chunk  # one record is longer
        return False

    def _read_given_up(self) -> bool:
        for message in self._given_up(self._log_start):
            self._note_end(halves.prepared_offset(message), (message.physical_offset, Standing.GIVEN_UP))
        return True

    def _read_halves(self) -> bool:
        """Note for each half message whether an op message names it; remember the others."""
        entries = self._entries(HALF_TOPIC, self._half_at, self._half_end)
        for physical_offset in entries:
            self._note_half(self._half_at, physical_offset)
            self._half_at += 1
        return not entries

    def _note_half(self, offset: QueueOffset, physical_offset: PhysicalOffset) -> None:
        is_named = self._named.get(offset, -1) > physical_offset
        if is_named and self._all_ends_before >= 0:
            self._ledger.mark(offset, Standing.ENDED)
            return  # our op messages name every place of a transaction
        half = halves.read_half(self._store, physical_offset)
        if is_named:
            self._ledger.mark(offset, Standing.ENDED)
        if half is None or half.queue_offset != offset:
            return
        name = self._name(half)
        if is_named:
            self._note_end(name, (self._named[offset], Standing.ENDED))
            return
        self._found.append((offset, physical_offset, name))
        for end in self._told(half):
            self._note_end(name, end)

    def _open(self) -> bool:
        """Tell the ledger which transactions are open, and which place stands for each."""
        unnamed: list[QueueOffset] = []
        places: dict[QueueOffset, list[QueueOffset]] = {}
        for offset, physical_offset, name in self._found:
            how = self._how(name, physical_offset)
            if how is Standing.OPEN:
                places.setdefault(name, []).append(offset)
            else:
                self._ledger.mark(offset, how)
                unnamed.append(offset)
        for name, offsets in places.items():
            if offsets != [name]:
                self._ledger.link(name, offsets)
        self._ops.add(unnamed)
        self._ledger.advance()
        self._ledger.is_known = True
        if unnamed:
            _log.info("%d ends of transactions were found in the log without an op message", len(unnamed))
        return True

    def _name(self, half: StoredMessage) -> QueueOffset:
        name, twin = halves.prepared_offset(half), _twin(half)
        if name == half.queue_offset and half.unique_key:
            name = self._names_by_twin.setdefault(twin, name)
            if name != half.queue_offset:
                self._ledger.call(half.queue_offset, name)
        else:
            self._names_by_twin[twin] = name
        return name

    def _told(self, half: StoredMessage) -> Iterator[_End]:
        """Ends that name this place; they count for all places of its transaction."""
        ends = [self._ends_by_place.get(_place(half.physical_offset, half))]
        if half.unique_key:
            ends.append(self._ends_by_twin.get(_twin(half)))
        yield from (end for end in ends if end is not None and end[0] > half.physical_offset)

    def _note_end(self, name: QueueOffset, end: _End) -> None:
        self._ends_by_name[name] = max(self._ends_by_name.get(name, end), end)

    def _how(self, name: QueueOffset, physical_offset: PhysicalOffset) -> Standing:
        """The standing of a place of a transaction. An end lies in the log behind all places that it ended."""
        if self._named.get(name, -1) > physical_offset:
            return Standing.ENDED
        end = self._ends_by_name.get(name)
        return end[1] if end is not None and end[0] > physical_offset else Standing.OPEN

    def _given_up(self, start: PhysicalOffset) -> Iterator[StoredMessage]:
        """Half messages that were given up behind a place of the log."""
        offset = self._store.max_offset(TRANSACTION_CHECK_MAX_TOPIC, 0)
        while offset > 0:
            offset += -1
            entries = self._store.queue_entries(TRANSACTION_CHECK_MAX_TOPIC, 0, offset, 1)
            if not entries or entries[0][0] < start:
                return
            message = read_message(self._store, entries[0][0])
            if message is not None and names.TRANSACTION_PREPARED_QUEUE_OFFSET in message.properties:
                yield message

    def _entries(self, topic: str, offset: QueueOffset, end: QueueOffset) -> list[PhysicalOffset]:
        """Where the next messages of queue 0 lie, up to a queue offset."""
        entries = self._store.queue_entries(topic, HALF_QUEUE, offset, max(0, min(_BATCH, end - offset)))
        return [physical_offset for physical_offset, _size, _tag_code in entries]


def _twin(message: StoredMessage) -> _Twin:
    return message.unique_key or "", message.born_ms, message.body_crc


def _place(offset: PhysicalOffset, message: StoredMessage) -> _Place:
    """Retries and delayed copies of committed messages keep the commit bits, and name 0: there the twin must agree."""
    return offset, None if offset else _twin(message)
