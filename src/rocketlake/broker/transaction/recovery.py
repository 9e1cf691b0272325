"""Fills the ledger at a start, from op messages, the log and the half messages themselves.

Owns        the search for the ends before the start.
Must not know   requests, how ends come in.

Every half message below the saved progress is ended or was put back. Behind the progress
1. op messages name the half messages that are ended;
2. an end whose op message was lost left its committed message, or its copy in TRANS_CHECK_MAX_TIME_TOPIC, in the log
   behind the last op message that has __RL_ENDS; a log of Apache's is read from the progress on;
3. of several copies of one half message the last one stands for the transaction.
So a half message whose committed message is in the log is never asked about again, and never committed twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.base.logs import get_logger
from rocketlake.broker.stored_message import read_message
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.committed import committed_records
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import REMOVE_TAG, TransactionOps, half_offsets
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, OP_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["recover_transactions"]

_log = get_logger(__name__)

_BATCH = 256
_End = tuple[PhysicalOffset, Standing]
"""(physical offset of the record that tells the end, how the transaction ended)."""
_Twin = tuple[str, int, int]
"""(unique key, time of birth, checksum of the body): all copies of a half message have them in common.

Apache's copies carry no name. A copy that a power cut tore may have lost its name: no checksum covers properties.
"""


def recover_transactions(
    store: MessageStore,
    position: tuple[QueueOffset, QueueOffset],
    ledger: HalfLedger,
    ops: TransactionOps,
) -> None:
    """Bring the ledger from the saved progress (half offset, op offset) to the end of the log at the start.

    The log is dispatched up to there. Messages behind it change nothing: no transaction ends while the ledger is
    closed, and a half message among them is open.
    """
    half_offset, op_offset = position
    if half_offset >= store.max_offset(HALF_TOPIC, HALF_QUEUE):
        ledger.begin(half_offset, store.max_offset(OP_TOPIC, HALF_QUEUE))
        ledger.is_known = True
        return
    ledger.begin(half_offset, op_offset)
    recovery = _Recovery(store, ledger)
    recovery.read_ops(op_offset)
    recovery.read_log(half_offset)
    recovery.read_halves(half_offset)
    ops.add(recovery.unnamed)
    ledger.advance()
    ledger.is_known = True
    if recovery.unnamed:
        _log.info("%d ends of transactions were found in the log without an op message", len(recovery.unnamed))


class _Recovery:
    """One start."""

    def __init__(self, store: MessageStore, ledger: HalfLedger) -> None:
        self.unnamed: list[QueueOffset] = []
        """Ended half messages that no op message names."""
        self._store = store
        self._ledger = ledger
        self._named: dict[QueueOffset, PhysicalOffset] = {}
        """Physical offset of the last op message that names a half message."""
        self._all_ends_before = PhysicalOffset(-1)
        """Op messages name every end before this place of the log; -1: no op message says so."""
        self._ends_by_name: dict[QueueOffset, _End] = {}
        self._ends_by_place: dict[PhysicalOffset, _End] = {}
        """By the physical offset of a half message that was never put back."""
        self._ends_by_twin: dict[_Twin, _End] = {}
        self._open: dict[QueueOffset, list[QueueOffset]] = {}
        """Places of open transactions by name."""
        self._names_by_twin: dict[_Twin, QueueOffset] = {}

    def read_ops(self, op_offset: QueueOffset) -> None:
        """Read the op messages. The one before `op_offset` may say that every end before it is named."""
        for offset, message in self._messages(OP_TOPIC, QueueOffset(max(0, op_offset - 1))):
            if message.tags != REMOVE_TAG:
                continue
            if names.ALL_ENDS in message.properties:
                self._all_ends_before = message.physical_offset
            if offset >= op_offset:
                named = list(half_offsets(message.body))
                self._ledger.named(offset, named)
                self._named.update(dict.fromkeys(named, message.physical_offset))

    def read_log(self, half_offset: QueueOffset) -> None:
        """Find ends that no op message names."""
        start = self._all_ends_before
        if start < 0:
            entries = self._store.queue_entries(HALF_TOPIC, HALF_QUEUE, half_offset, 1)
            start = entries[0][0] if entries else PhysicalOffset(0)
        for message in committed_records(self._store.log_views(start)):
            end = message.physical_offset, Standing.COMMITTED
            self._ends_by_twin[_twin(message)] = end
            if names.TRANSACTION_PREPARED_QUEUE_OFFSET in message.properties:
                self._ends_by_name[halves.prepared_offset(message)] = end
            else:
                self._ends_by_place[message.prepared_transaction_offset] = end
        for message in self._given_up(start):
            self._note_end(halves.prepared_offset(message), (message.physical_offset, Standing.GIVEN_UP))

    def read_halves(self, half_offset: QueueOffset) -> None:
        """Note for each half message whether it is ended, or another place stands for it."""
        ledger = self._ledger
        found: list[tuple[QueueOffset, PhysicalOffset, QueueOffset]] = []
        for offset, physical_offset in self._places(HALF_TOPIC, half_offset):
            is_named = self._named.get(offset, -1) > physical_offset
            if is_named:
                ledger.mark(offset, Standing.ENDED)
                if self._all_ends_before >= 0:
                    continue  # our op messages name every place of a transaction
            half = halves.read_half(self._store, physical_offset)
            if half is None or half.queue_offset != offset:
                continue
            name = self._name(half)
            if is_named:
                self._note_end(name, (self._named[offset], Standing.ENDED))
            else:
                found.append((offset, physical_offset, name))
                for end in self._told(half):
                    self._note_end(name, end)
        for offset, physical_offset, name in found:
            how = self._how(name, physical_offset)
            if how is Standing.OPEN:
                self._open.setdefault(name, []).append(offset)
            else:
                ledger.mark(offset, how)
                self.unnamed.append(offset)
        for name, places in self._open.items():
            if places != [name]:
                ledger.link(name, places)

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
        ends = [self._ends_by_place.get(half.physical_offset)]
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

    def _places(self, topic: str, offset: QueueOffset) -> Iterator[tuple[QueueOffset, PhysicalOffset]]:
        """(queue offset, physical offset) of the entries of queue 0."""
        end = self._store.max_offset(topic, HALF_QUEUE)
        while offset < end:
            entries = self._store.queue_entries(topic, HALF_QUEUE, offset, _BATCH)
            if not entries:
                return
            for physical_offset, _size, _tag_code in entries:
                yield offset, physical_offset
                offset += 1

    def _messages(self, topic: str, offset: QueueOffset) -> Iterator[tuple[QueueOffset, StoredMessage]]:
        """(queue offset, message) of queue 0, as far as they can be read."""
        for place, physical_offset in self._places(topic, offset):
            message = read_message(self._store, physical_offset)
            if message is not None and message.topic == topic and message.queue_offset == place:
                yield place, message


def _twin(message: StoredMessage) -> _Twin:
    return message.unique_key or "", message.born_ms, message.body_crc
