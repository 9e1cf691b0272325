"""Finds half messages that nobody ended, and has their producers asked.

Owns        one walk through the half topic every transactionCheckInterval, what happens to each message of it.
Must not know   requests; how a producer is asked (check_back.py), how ends come in.

A walk goes from the progress to the first half message that is too young. One that an op message names is done with.
Any other goes to the end of the half topic once more, so that the progress gets past it, and its producer is asked
about the copy. After transactionCheckMax questions, or fileReservedTime after its birth, it goes to
TRANS_CHECK_MAX_TIME_TOPIC instead.

Rules: RocketMQ's TransactionalMessageServiceImpl. Departures (docs/decisions/0005): an end that still waits for its op
message counts; the last question may be answered, too; a half message that its producer wants left alone
(CHECK_IMMUNITY_TIME_IN_SECONDS) is not counted as asked when it is put back, and its end is found when it comes after
that; one that cannot be put into TRANS_CHECK_MAX_TIME_TOPIC stays.
"""

from __future__ import annotations

from collections import deque

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.check_back import CheckBack
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.op_walk import OpWalk
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC, TopicConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["TransactionCheck"]

_log = get_logger(__name__)

_WALK_SECONDS_MAX = 60.0
_TURN_SECONDS = 0.002
"""Other work gets a turn after this."""
_SETTLE_SECONDS = 0.5
_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG)


class TransactionCheck(Service):
    """The walks of one broker."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicTable,
        ops: TransactionOps,
        progress: TransactionProgress,
        check_back: CheckBack,
        clock: Clock,
    ) -> None:
        super().__init__("transaction-check", clock)
        self._config = config
        self._store = store
        self._topics = topics
        self._ops = ops
        self._progress = progress
        self._check_back = check_back
        self._warnings = RareWarnings(_log, clock=clock)
        self._questions: deque[tuple[StoredMessage, int, PutResult]] = deque()
        """Half message, how often it was asked about, its new copy: not asked yet."""

    async def start(self) -> None:
        """Begin to walk, for the first time after one interval."""
        await super().start()
        self.keep("walks", self._walk_in_time)

    async def _walk_in_time(self) -> None:
        due = self._clock.monotonic() + self._config.now.transaction_check_interval_ms / 1000
        self._ask_readable()
        while not self._progress.settle() and self._clock.monotonic() + _SETTLE_SECONDS < due:
            await self._clock.sleep(_SETTLE_SECONDS)
            self._ask_readable()
        await self._clock.sleep(due - self._clock.monotonic())
        await self.walk()

    async def walk(self) -> None:
        """One walk, at most a minute long."""
        self._ask_readable()
        began_ms = self._clock.now_ms()
        until = self._clock.monotonic() + _WALK_SECONDS_MAX
        half_offset, op_offset = self._progress.position()
        ends = OpWalk(self._store, op_offset)
        turn_end = self._clock.monotonic() + _TURN_SECONDS
        try:
            while (now := self._clock.monotonic()) < until:
                if now > turn_end:
                    await self._clock.sleep(0)
                    turn_end = self._clock.monotonic() + _TURN_SECONDS
                if not ends.take(half_offset) and not self._ops.is_ended(half_offset):
                    if ends.read_on(half_offset):
                        continue
                    if not self._deal_with(half_offset, began_ms, ends):
                        break
                half_offset += 1
        finally:
            self._progress.move(half_offset, ends.safe_offset)

    def _deal_with(self, half_offset: int, began_ms: int, ends: OpWalk) -> bool:
        """Put a half message that is not ended where it belongs; False if the walk ends before it."""
        if half_offset >= self._store.max_offset(HALF_TOPIC, HALF_QUEUE):
            return False
        half = self._read(half_offset)
        if half is None:
            return True  # expired with its log file, or a gap that a recovery left
        if half.store_ms >= began_ms:
            return False
        config = self._config.now
        age_ms = self._clock.now_ms() - half.born_ms
        if halves.times_checked(half) >= config.transaction_checks_max or age_ms > self._store.config.file_reserved_ms:
            return self._give_up(half)
        immune_ms = halves.immune_ms(half)
        if immune_ms is None:
            if 0 <= age_ms <= config.transaction_timeout_ms:
                return False
        elif age_ms <= (immune_ms if immune_ms >= 0 else config.transaction_timeout_ms):
            prepared = halves.prepared_offset(half)
            if ends.take(prepared) or prepared in ends.late or self._ops.is_ended(prepared):
                return True
            return self._put(halves.put_back_copy(half, checked=None, prepared=prepared)) is not None
        return self._ask(half)

    def _read(self, half_offset: int) -> StoredMessage | None:
        entries = self._store.queue_entries(HALF_TOPIC, HALF_QUEUE, half_offset, 1)
        half = halves.read_half(self._store, entries[0][0]) if entries else None
        return half if half is not None and half.queue_offset == half_offset else None

    def _ask(self, half: StoredMessage) -> bool:
        checked = max(halves.times_checked(half), 0) + 1
        result = self._put(halves.put_back_copy(half, checked=checked))
        if result is None:
            return False
        if result.status is PutStatus.OK:
            self._questions.append((half, checked, result))
            self._ask_readable()
        return True

    def _ask_readable(self) -> None:
        """Ask about copies that can be read, for the answer must find them: with the write pool that takes a while."""
        while self._questions and self._store.read_record(self._questions[0][2].physical_offset) is not None:
            self._check_back.ask(*self._questions.popleft())

    def _give_up(self, half: StoredMessage) -> bool:
        if TRANSACTION_CHECK_MAX_TOPIC not in self._topics:
            self._topics.put(TopicConfig(TRANSACTION_CHECK_MAX_TOPIC, read_queues=1, write_queues=1))
        _log.error(
            "half message %s of producer group %s is given up, it goes to %s",
            half.message_id,
            halves.producer_group(half),
            TRANSACTION_CHECK_MAX_TOPIC,
        )
        return self._put(halves.given_up_copy(half)) is not None

    def _put(self, message: PutMessage) -> PutResult | None:
        """Store it; None if that may work the next time. What no store would ever take is skipped."""
        result = self._store.put(message)
        if result.status is PutStatus.OK:
            return result
        if result.status in _HOPELESS:
            _log.error("a half message can never be stored again, it is skipped: %s", result.reason)
            return result
        self._warnings.warn("put", "half messages wait: %s %s", result.status.name, result.reason)
        return None
