"""A batch with a sequence mark: its messages that were stored before are cut off, the rest is stored.

Owns        the check before a marked batch goes to the store, the count of it afterwards.
Must not know   headers of a send, how requests are held (held/requests.py), where the table is kept.

Rules: docs/decisions/0010-replays-are-dropped-by-the-broker.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.broker.delay.parking import TIMER_NAMES, delay_level, timer_property
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.broker.tables.table_saver import TableSaver
from rocketlake.codec import property_text
from rocketlake.codec.property_text import find
from rocketlake.codec.record_batch import decode_batch, entry_starts
from rocketlake.codec.record_layout import RecordError
from rocketlake.codec.sequence_mark import SequenceMark, parse_mark
from rocketlake.model import property_names as names
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["NOTHING_KNOWN", "Known", "SequencedPuts", "refuse_inner_mark", "refuse_inner_marks"]

_NAME = names.PRODUCER_SEQUENCE.encode()
_INNER_NAMES = tuple(
    name.encode()
    for name in (names.PRODUCER_SEQUENCE, names.TRANSACTION_PREPARED, names.DELAY, names.POP_CK, *TIMER_NAMES)
)

MarkedBatch = tuple[str, int, str, int]
"""(topic, queue id, mark, messages)."""
NextBatch = tuple[str, int, SequenceMark, int]
"""(topic, queue id, parsed mark, messages) of the next batch of its producer in its queue."""


@dataclass(frozen=True, slots=True)
class Known:
    """How many messages of a request were stored before, and how many messages of its batch the queue holds now."""

    messages: int
    next_number: int


NOTHING_KNOWN = Known(0, 0)


class SequencedPuts:
    """Stores marked batches, each message once."""

    def __init__(
        self, intake: Intake, sequences: ProducerSequences, saver: TableSaver, log_end: Callable[[], PhysicalOffset]
    ) -> None:
        self._intake = intake
        self._sequences = sequences
        self._saver = saver
        self._log_end = log_end
        self.held: HeldRequests[None] = HeldRequests()
        """The first marked batches, which wait until the table is on disk."""

    def once_kept(self, request: Request, serve: Handler) -> Reply | Held:
        """Serve the request now; the first requests of all wait until the table is on disk."""
        if self._sequences.is_kept:
            return serve(request)
        if self.held.hold(None, request, serve):
            self._sequences.begin()
            self._saver.when_saved(self._note_saved)
        return HELD

    def _note_saved(self, saved: bool) -> None:
        self._sequences.note_saved(saved)
        self.held.settle(None, None if saved else _not_saved)

    # -- for the runs of send_runs.py ----------------------------------------------------------------------------------

    def next_ones(self, batches: Sequence[MarkedBatch]) -> list[NextBatch] | None:
        """These batches if every message of them is new, so that they can be stored as they are; None otherwise."""
        if not self._sequences.is_kept:
            return None
        found: list[NextBatch] = []
        seen: dict[tuple[str, str], tuple[str, set[int]]] = {}
        writing: dict[tuple[str, str], int] = {}  # the batch of each query
        for topic, queue_id, text, count in batches:
            try:
                mark = parse_mark(text)
                known = self._sequences.known(topic, queue_id, mark, count, _digest_before(mark))
            except (UsageError, RemoteError):
                return None
            layout, queues = seen.setdefault((topic, mark.producer), (mark.layout, set()))
            batch = writing.setdefault((topic, mark.query), mark.batch)
            if known or (batch, layout) != (mark.batch, mark.layout) or queue_id in queues:
                return None
            if mark.count not in (0, count):
                return None
            queues.add(queue_id)
            found.append((topic, queue_id, mark, count))
        return found

    def note(self, batches: Sequence[NextBatch]) -> None:
        """Count these batches: they were stored."""
        for batch in batches:
            self._sequences.advance(*batch)

    # -- one by one ----------------------------------------------------------------------------------------------------

    def put_batch(self, message: PutMessage, properties: dict[str, str]) -> tuple[PutResult, Known]:
        """Store the new messages of a batch: (result of the put, messages known before).

        If no message is new, nothing is appended and `count` is 0. RemoteError if the mark cannot be read, or if its
        number may not be taken now.
        """
        topic, queue_id = message.topic, message.queue_id
        mark = _read(properties)
        refuse_inner_marks(message.body)
        body = memoryview(message.body)
        starts = _entries(body, mark)

        def digest_at(count: int) -> int | None:
            return mark.before if mark.before is None else crc32(body[: starts[count]], mark.before)

        count = len(starts) - 1
        known = self._sequences.known(topic, queue_id, mark, count, digest_at)
        if known == count:
            # They may not be on disk yet: so the sender waits until the whole log is.
            result = PutResult(PutStatus.OK, next_offset=self._log_end(), count=0)
            return result, Known(known, self._sequences.next_number(topic, queue_id, mark))
        if known:
            message.body = body[starts[known] :]
            mark = mark.later(known, digest_at(known))
            properties[names.PRODUCER_SEQUENCE] = mark.to_text()
        log_end = self._log_end()
        try:
            result = self._intake.put_batch(message, properties)
        except Exception:
            if self._log_end() != log_end:  # the batch is stored, and its sender will send it again
                self._sequences.advance(topic, queue_id, mark, count - known)
            raise
        if result.status.is_stored:
            self._sequences.advance(topic, queue_id, mark, result.count)
        return result, Known(known, mark.sequence + count - known) if known else NOTHING_KNOWN


def _digest_before(mark: SequenceMark) -> Callable[[int], int | None]:
    """The digest at the start of an unknown batch. For a batch that is partly known it is never asked for."""
    return lambda _count: mark.before


def _entries(body: memoryview, mark: SequenceMark) -> list[int]:
    """Where each entry of a batch starts, and where the last one ends. RemoteError if the batch is broken."""
    try:
        starts = entry_starts(body)
    except RecordError as error:
        raise RemoteError(f"the batch is broken: {error}", code=ResponseCode.MESSAGE_ILLEGAL) from None
    if mark.count not in (0, len(starts)):
        raise RemoteError(
            f"property {names.PRODUCER_SEQUENCE} speaks of {mark.count} messages, the batch has {len(starts)}",
            code=ResponseCode.MESSAGE_ILLEGAL,
            hint="write the number of messages of this request into it",
        )
    return [*starts, len(body)]


def _not_saved(_request: Request) -> Reply:
    return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark="the table of producer sequences cannot be saved now")


def refuse_inner_marks(body: bytes | bytearray | memoryview) -> None:
    """RemoteError if a message of a batch carries a mark or a handle, is a half message or asks for a delay.

    The store does not look into a batch. So a mark would be counted without a check, consumers would see a half message
    or a delayed one at once, and who pops a message with the handle of another one would acknowledge that one.
    """
    data = bytes(body)
    if not any(name in data for name in _INNER_NAMES):
        return
    try:
        entries = decode_batch(body)
    except RecordError:
        return  # the intake refuses the batch, and says where it is broken
    for _flag, _body, text in entries:
        refuse_inner_mark(text)


def refuse_inner_mark(text: bytes) -> None:
    """`refuse_inner_marks` for the properties of one message."""
    if not any(name in text for name in _INNER_NAMES):
        return
    if find(text, _NAME) is not None:
        raise RemoteError(
            f"a message of a batch has the property {names.PRODUCER_SEQUENCE}",
            code=ResponseCode.MESSAGE_ILLEGAL,
            hint="leave it out when copying messages: it is the mark of the batch they were stored with",
        )
    properties = property_text.decode(text)
    if properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        raise _refused("a half message", names.TRANSACTION_PREPARED)
    if names.POP_CK in properties:
        raise _refused("the handle of a popped message", names.POP_CK)
    delay = names.DELAY if delay_level(properties) > 0 else timer_property(properties)
    if delay is not None:
        raise _refused("a delayed message", delay)


def _refused(what: str, name: str) -> RemoteError:
    return RemoteError(
        f"{what} in a batch: property {name}",
        code=ResponseCode.MESSAGE_ILLEGAL,
        hint=f"send it alone, or leave {name} out when copying messages",
    )


def _read(properties: dict[str, str]) -> SequenceMark:
    try:
        return parse_mark(properties[names.PRODUCER_SEQUENCE])
    except UsageError as error:
        raise RemoteError(error.what, code=ResponseCode.MESSAGE_ILLEGAL, hint=error.hint) from None
