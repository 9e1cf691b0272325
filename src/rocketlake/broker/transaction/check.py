"""Finds half messages without an end, and has their producers asked.

Owns        one walk through the half topic every transactionCheckInterval, what happens to each message of it.
Must not know   requests; how a producer is asked (check_back.py), how ends come in.

A walk goes over the open half messages, from the progress to the first one that is too young. It copies each to the
end of the half topic, so that the progress gets past the old place, and the producer is asked about the copy. A half
message that was asked about transactionCheckMax times, or is older than fileReservedTime, or has lost its topic, is
copied to TRANS_CHECK_MAX_TIME_TOPIC instead: it is given up.

Rules: RocketMQ's TransactionalMessageServiceImpl. Departures: docs/decisions/0005, docs/decisions/0016.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.check_back import CheckBack
from rocketlake.broker.transaction.committed import was_committed
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.broker.transaction.recovery import Recovery
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC, TopicConfig
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["TransactionCheck"]

_log = get_logger(__name__)

_WALK_SECONDS_MAX = 60.0
_TURN_SECONDS = 0.002
"""So long a walk works before other tasks get a turn."""
_SETTLE_SECONDS = 0.5
_START_SECONDS = 0.1
"""So long a start waits for the ends before it, if they are in memory."""
_OPENING_SECONDS = 0.05
"""Between two looks whether the ends before the start are known: until then no transaction can be ended."""
_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG)


class TransactionCheck(Service):
    """The walks of one broker."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicTable,
        ledger: HalfLedger,
        ops: TransactionOps,
        progress: TransactionProgress,
        check_back: CheckBack,
        clock: Clock,
    ) -> None:
        super().__init__("transaction-check", clock)
        self._config = config
        self._store = store
        self._topics = topics
        self._ledger = ledger
        self._ops = ops
        self._progress = progress
        self._check_back = check_back
        self._warnings = RareWarnings(_log, clock=clock)
        self._questions: deque[tuple[StoredMessage, int, PutResult]] = deque()
        """(half message, number of the question, the new copy): questions that wait until the copy can be read."""
        self._log_end = PhysicalOffset(0)
        """The end of the log at the start: the ends before the start lie below."""
        self._recovery: Recovery | None = None
        """The search for them, once it has begun."""

    async def start(self) -> None:
        """Fill the ledger with the ends before this start; what takes long goes on beside. The first walk comes later.

        The ledger of an earlier start does not count: while this broker was a slave its master ended transactions.
        """
        await super().start()
        self._ledger.is_known = False
        self._questions.clear()
        self._log_end = self._store.max_physical_offset
        self._recovery = None
        with suppress(NotInMemory):
            await self._recover(self._read_now, _START_SECONDS)
        self.keep("walks", self._walk_in_time)

    async def _walk_in_time(self) -> None:
        due = self._clock.monotonic() + self._config.now.transaction_check_interval_ms / 1000
        while (left := due - self._clock.monotonic()) > 0:
            await self._recover(self._store.read)
            await self._store.read(self._ask_readable)
            self.pass_ended()
            await self._clock.sleep(min(_SETTLE_SECONDS if self._ledger.is_known else _OPENING_SECONDS, left))
        await self.walk()

    async def _read_now(self, read: Callable[[], Any]) -> Any:
        """What `read` gives. Raises NotInMemory: a change of the master must not wait for a slow disk."""
        with self._store.disk_wait.none():
            return read()

    async def _recover(self, reads: Callable[[Callable[[], Any]], Awaitable[Any]], seconds: float = math.inf) -> None:
        """Go on with the search for ends, for about so long."""
        if self._ledger.is_known or self._store.dispatched_offset < self._log_end:
            return
        turn = self._clock.monotonic()
        until = turn + seconds
        if self._recovery is None:
            self._recovery = await reads(self._begin_recovery)
        recovery = self._recovery
        while not await reads(recovery.step):
            now = self._clock.monotonic()
            if now >= until:
                return
            if now >= turn + _TURN_SECONDS:
                await self._clock.sleep(0)
                turn = self._clock.monotonic()
        self._recovery = None

    def _begin_recovery(self) -> Recovery:
        return Recovery(self._store, self._progress.saved(), self._ledger, self._ops)

    def pass_ended(self) -> None:
        """Move the progress to the first half message that is open."""
        if self._ledger.is_known:
            self._ledger.advance()
            self._progress.move(self._ledger.position, self._ledger.op_position)

    async def walk(self) -> None:
        """One walk, at most a minute long. OSError: the disk does not give all of it; the rest is done."""
        if not self._ledger.is_known:
            return
        await self._store.read(self._ask_readable)
        # Copies that this walk puts back lie behind `end`. The end is an offset: a time would end the walk early
        # if the wall clock had run ahead.
        end = self._store.max_offset(HALF_TOPIC, HALF_QUEUE)
        until = self._clock.monotonic() + _WALK_SECONDS_MAX
        ledger = self._ledger
        ledger.skip_to(await self._store.read(lambda: self._store.min_offset(HALF_TOPIC, HALF_QUEUE)))
        half_offset = ledger.next_open(ledger.position)
        turn_end = self._clock.monotonic() + _TURN_SECONDS
        unread: OSError | None = None
        try:
            while (now := self._clock.monotonic()) < until:
                try:
                    if not await self._store.read(partial(self._deal_with, half_offset, end)):
                        break
                except OSError as error:  # it stays open, and holds up no other
                    unread = error
                half_offset = ledger.next_open(half_offset + 1)
                if now > turn_end:
                    await self._clock.sleep(0)
                    turn_end = self._clock.monotonic() + _TURN_SECONDS
        finally:
            self.pass_ended()
        if unread is not None:
            raise unread

    def _deal_with(self, half_offset: QueueOffset, end: QueueOffset) -> bool:
        """Pass, ask about, put back or give up one half message; False if the walk ends before it."""
        if half_offset >= end or self._store.log.is_late:  # a copy would have the loop wait for the log's next file
            return False
        if self._ledger.at(half_offset) is not Standing.OPEN:
            return True  # its end came while a worker read its record, or this call has put it back before
        half = self._read(half_offset)
        if half is None:  # damaged, a gap that a recovery left, or a message without a target
            _log.error("half message %d is passed over: none that can be read lies at its place", half_offset)
            self._ledger.mark(half_offset, Standing.GONE)
            return True
        if not self._ledger.stands(half):
            self._ledger.mark(half_offset, Standing.PUT_BACK)
            return True
        config = self._config.now
        age_ms = self._clock.now_ms() - half.born_ms
        if halves.times_checked(half) >= config.transaction_checks_max or age_ms > self._store.config.file_reserved_ms:
            return self._give_up(half, "no producer of its group told its end")
        if halves.is_orphan(half, self._store, self._topics):
            return self._give_up(half, f"its topic {halves.target(half)[0]} was deleted")
        immune_ms = halves.immune_ms(half)
        if immune_ms is None:
            if 0 <= age_ms <= config.transaction_timeout_ms:
                return False
        elif age_ms <= (immune_ms if immune_ms >= 0 else config.transaction_timeout_ms):
            return self._put_back(half, None) is not None
        return self._ask(half)

    def _read(self, half_offset: QueueOffset) -> StoredMessage | None:
        entries = self._store.queue_entries(HALF_TOPIC, HALF_QUEUE, half_offset, 1)
        half = halves.read_half(self._store, entries[0][0]) if entries else None
        return half if half is not None and half.queue_offset == half_offset else None

    def _put_back(self, half: StoredMessage, checked: int | None) -> PutResult | None:
        """Copy it to the end of the half topic; None if the store may take the copy the next time.

        A half message of another broker may have no room for the marks of its copy. It is given up.
        """
        result = self._put(halves.put_back_copy(half, self._ledger.name(half), checked=checked))
        if result is not None and result.status is PutStatus.OK:
            self._ledger.move(half, result.queue_offset)
        elif result is not None and not self._give_up(half, f"no copy of it can be asked about: {result.reason}"):
            return None
        return result

    def _ask(self, half: StoredMessage) -> bool:
        """Put it back and ask; end it, if its message is committed by another half message of its transaction."""
        if was_committed(self._store, half):
            self._ops.end(half, Standing.COMMITTED)
            return True
        checked = max(halves.times_checked(half), 0) + 1
        result = self._put_back(half, checked)
        if result is not None and result.status is PutStatus.OK:
            self._questions.append((half, checked, result))
            self._ask_readable()
        return result is not None

    def _ask_readable(self) -> None:
        """Ask about copies that can be read: the answer must find them. With the write pool that takes a while."""
        while self._questions and self._store.read_record(self._questions[0][2].physical_offset) is not None:
            self._check_back.ask(*self._questions.popleft())

    def _give_up(self, half: StoredMessage, why: str) -> bool:
        if TRANSACTION_CHECK_MAX_TOPIC not in self._topics:
            self._topics.put(TopicConfig(TRANSACTION_CHECK_MAX_TOPIC, read_queues=1, write_queues=1))
        _log.error(
            "half message %s of producer group %s is given up and goes to %s: %s",
            half.message_id,
            halves.producer_group(half),
            TRANSACTION_CHECK_MAX_TOPIC,
            why,
        )
        result = self._put(halves.given_up_copy(half, self._ledger.name(half)))
        if result is None:
            return False
        if result.status is not PutStatus.OK:
            _log.error("half message %s is skipped, no store would take its copy: %s", half.message_id, result.reason)
        self._ops.end(half, Standing.GIVEN_UP)
        return True

    def _put(self, message: PutMessage) -> PutResult | None:
        """Store a copy; None if the store may take it later, and not for a copy that no store would ever take."""
        result = self._store.put(message)
        if result.status is PutStatus.OK or result.status in _HOPELESS:
            return result
        self._warnings.warn("put", "half messages wait: %s %s", result.status.name, result.reason)
        return None
