"""GET_HALF_MESSAGES: transactions without an end, for administrators.

Owns        the walk over half messages that are open, or were given up; which of them an answer holds, its limits.
Must not know   how transactions end and are asked about.

It reads only. A transaction is listed at the place that stands for it, its newest copy. When a check puts it back
between two answers, it is met once more, behind: the asker knows it again by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from rocketlake.base.clock import Millis
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ledger import HalfLedger, not_known
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.transaction import HalfMessage, HalfMessages
from rocketlake.protocol.headers.transaction import HalfMessagesHeader
from rocketlake.store.message_store import MessageStore

__all__ = ["HalfList"]

_ENTRIES_MAX = 1000
_LOOKED_MAX = 10_000
"""Read for one answer; the next question goes on behind them."""
_NAMELESS = QueueOffset(-1)
_CLOCKS_DIFFER_MS = 600_000
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 8
"""The newest ones; other keys with the same hash may be among them."""


class HalfList:
    """Answers about half messages."""

    def __init__(
        self,
        store: MessageStore,
        ledger: HalfLedger,
        producers: ProducerTable,
        cold_requests: ColdRequests,
        address: Callable[[], tuple[str, int]],
    ) -> None:
        """`address`: that of this broker, by which an administrator finds it again."""
        self._store = store
        self._ledger = ledger
        self._producers = producers
        self._cold_requests = cold_requests
        self._address = address

    def halves(self, request: Request) -> ReplySteps:
        """GET_HALF_MESSAGES. RemoteError while it is not known which transactions are ended."""
        header = request.header(HalfMessagesHeader)
        topic = TRANSACTION_CHECK_MAX_TOPIC if header.given_up else HALF_TOPIC
        entries_max = max(1, min(header.limit, _ENTRIES_MAX))
        answer = HalfMessages()
        first = yield from self._cold_requests.read(request, lambda: self._store.min_offset(topic, HALF_QUEUE))
        place = QueueOffset(max(header.offset, first))
        for looked in count():
            if not self._ledger.is_known:  # this start has just begun, or another one since the last step
                raise not_known()
            if not header.given_up:
                place = self._ledger.next_open(max(place, self._ledger.position))
            if place >= self._store.max_offset(topic, HALF_QUEUE):
                break
            if looked >= _LOOKED_MAX or len(answer.halves) >= entries_max:
                answer.next_offset = place
                break
            half = yield from self._cold_requests.read(request, partial(self._look, header, topic, place))
            if half is not None:
                answer.halves.append(half)
            place = QueueOffset(place + 1)
            yield
        return Reply(body=answer.encode())

    def _look(self, header: HalfMessagesHeader, topic: str, place: QueueOffset) -> HalfMessage | None:
        """The entry of the half message at a place, if one lies there and is asked for. Raises NotInMemory."""
        entries = self._store.queue_entries(topic, HALF_QUEUE, place, 1)
        half = halves.read_half(self._store, entries[0][0], given_up=True) if entries else None
        if half is None or (half.topic, half.queue_offset) != (topic, place) or not self._is_wanted(half, header):
            return None
        return self._entry(half)

    def _is_wanted(self, half: StoredMessage, header: HalfMessagesHeader) -> bool:
        if header.topic not in (None, halves.target(half)[0]):
            return False
        group = halves.producer_group(half)
        if header.group not in (None, group) or (header.is_dead and self._producers.members(group)):
            return False
        return not self._was_brought_back(half) if header.given_up else self._ledger.stands(half)

    def _was_brought_back(self, half: StoredMessage) -> bool:
        """True if the half topic holds a later copy of a half message that was given up, as far as the key index goes.

        Its transaction is open again then, ended, or given up once more. The ledger of a new process does not know.
        """
        name = self._name(half)
        if name != _NAMELESS and self._ledger.is_open(name):
            return True
        if not half.unique_key:
            return False
        begin = Millis(max(0, half.store_ms - _CLOCKS_DIFFER_MS))
        found = self._store.query(HALF_TOPIC, half.unique_key, _HITS_MAX, begin, _ANY_TIME, unique=True)
        return any(
            copy.physical_offset > half.physical_offset and name in (_NAMELESS, halves.prepared_offset(copy))
            for copy in decode_records(b"".join(found.slices), check_crc=False, decompress=False)
        )

    def _name(self, half: StoredMessage) -> QueueOffset:
        if half.topic == HALF_TOPIC:
            return self._ledger.name(half)
        # Another broker gave it up, or it had no room for its name: nothing tells which half message it was.
        is_named = names.TRANSACTION_PREPARED_QUEUE_OFFSET in half.properties
        return halves.prepared_offset(half) if is_named else _NAMELESS

    def _entry(self, half: StoredMessage) -> HalfMessage:
        group = halves.producer_group(half)
        return HalfMessage(
            name=self._name(half),
            id=offset_message_id(*self._address(), half.physical_offset),
            transaction=half.unique_key or "",
            topic=halves.target(half)[0],
            group=group,
            keys=half.keys or "",
            born=half.born_ms,
            stored=half.store_ms,
            checked=max(halves.times_checked(half), 0),
            producers=len(self._producers.members(group)),
        )
