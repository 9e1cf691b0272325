"""Answers to brokers that ask about half messages of a query.

Owns        the rule of the answer, how long it is remembered.
Must not know   how a batch is decided and ended.

A half message that is asked about was named by no end yet. While its batch is not done it may be one that the driver
is about to commit, so the answer is "unknown": the driver alone commits. Once the batch is done it is a leftover: of an
attempt that died, or sent twice; or a copy, which Apache's broker asks about though the half message is committed. The
answer is "roll back".
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import Answer, ClientInstance, TransactionEnd, end_of_check
from rocketlake.model.message import StoredMessage
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.spark.sink.exactly_once.journal import BatchPassed, Journal
from rocketlake.spark.sink.identity import BATCH_PROPERTY

__all__ = ["Questions", "answer_for"]

_log = get_logger(__name__)
_FRESH_SECONDS = 1.0
_KEPT_MAX = 1000


class Questions:
    """Answers for one query."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = asyncio.Lock()
        self._known: dict[int, tuple[float, bool]] = {}
        """By batch: when it was looked up, and whether it is over."""

    def take(self, question: CheckTransactionHeader, message: StoredMessage, answer: Answer) -> None:
        """See client.member.TransactionCheck."""
        self._journal.calls.client.spawn("answer", self._answer(question, message, answer))

    async def _answer(self, question: CheckTransactionHeader, message: StoredMessage, answer: Answer) -> None:
        query, _, batch = message.properties.get(BATCH_PROPERTY, "").rpartition("/")
        end = TransactionEnd.UNKNOWN
        if query == self._journal.query and batch.isdigit():
            try:
                if await self.is_over(int(batch)):
                    end = TransactionEnd.ROLLBACK
            except RocketLakeError as error:
                _log.warning("rocketmq sink: a broker asks about batch %s, which cannot be looked up: %s", batch, error)
        answer(end_of_check(self._journal.calls.group, question, message, end))

    async def is_over(self, batch: int) -> bool:
        """True if all half messages of this batch that are to be committed are."""
        clock = self._journal.calls.client.clock
        async with self._lock:  # a broker asks about thousands at once
            looked, is_over = self._known.get(batch, (0.0, False))
            if is_over or (looked and clock.monotonic() - looked < _FRESH_SECONDS):
                return is_over
            try:
                is_over = (await self._journal.standing(batch)).is_done
            except BatchPassed:
                is_over = True
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[batch] = clock.monotonic(), is_over
            return is_over


_answering: WeakKeyDictionary[ClientInstance, dict[str, Questions]] = WeakKeyDictionary()


def answer_for(journal: Journal) -> None:
    """Have the brokers ask this process about half messages of this query, from now on. On the loop's thread."""
    client, group = journal.calls.client, journal.calls.group
    known = _answering.setdefault(client, {})
    if group not in known:
        known[group] = Questions(journal)
        client.add_producer(group, known[group].take)
        client.heartbeat_soon()
