"""Notes on disk the half messages that are ended: op messages name them, many in one.

Owns        the ends that are not written yet, when an op message is written.
Must not know   progress, what an end means.

Rule (RocketMQ's TransactionalOpBatchService): an op message lies in queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC, has the
tag "d", and its body is half queue offsets, each with a comma behind it: `12,15,`. It is written when
transactionOpMsgMaxSize bytes are there, or transactionOpBatchInterval after the first of them.

Our op messages name every place of a transaction, so that the transaction is ended for any reader. An op message that
leaves no end unnamed has the property __RL_ENDS: only behind it a start looks for ends without an op message
(recovery.py). Apache forgets ends that it could not write; here they wait for the next try.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import OP_TOPIC
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

__all__ = ["REMOVE_TAG", "TransactionOps", "half_offsets"]

_log = get_logger(__name__)

REMOVE_TAG = "d"
_SEPARATOR = ","
_PROPERTIES = property_text.encode({names.WAIT: "true", names.TAGS: REMOVE_TAG})
_PROPERTIES_ALL = property_text.encode({names.WAIT: "true", names.TAGS: REMOVE_TAG, names.ALL_ENDS: "all"})


class TransactionOps(Service):
    """Collects ends and writes them."""

    def __init__(
        self,
        store: MessageStore,
        ledger: HalfLedger,
        config: LiveConfig,
        clock: Clock,
        store_host: Callable[[], bytes],
    ) -> None:
        """`store_host`: this broker's address as records carry it."""
        super().__init__("transaction-ops", clock)
        self._store = store
        self._ledger = ledger
        self._config = config
        self._store_host = store_host
        self._warnings = RareWarnings(_log, clock=clock)
        self._waiting: deque[QueueOffset] = deque()
        self._bytes = 0
        self._first_came = asyncio.Event()

    async def start(self) -> None:
        """Start to write ends that have waited for an interval. Ends that a stop could not write are in the log."""
        await super().start()
        self._waiting.clear()
        self._bytes = 0
        self._first_came.clear()
        self.keep("writing", self._write_next)

    async def stop(self) -> None:
        """Write the ends that wait."""
        await super().stop()
        self.write()

    def end(self, half: StoredMessage, how: Standing) -> None:
        """Note that the transaction of a half message is ended: in memory now, on disk soon."""
        self.add(self._ledger.end(half, how))
        if self.room_bytes < 0:
            self.write()

    def end_alone(self, ends: Iterable[tuple[QueueOffset, Standing]]) -> None:
        """`end` for half messages that are the only places of their transactions; others and ended ones are passed."""
        end_alone = self._ledger.end_alone
        self.add([half_offset for half_offset, how in ends if end_alone(half_offset, how)])
        if self.room_bytes < 0:
            self.write()

    @property
    def room_bytes(self) -> int:
        """So many bytes more are noted before an op message is written; below 0: it is due, or could not be written."""
        return self._config.now.transaction_op_bytes_max - self._bytes

    def add(self, half_offsets: Iterable[QueueOffset]) -> None:
        """Have these places noted on disk as ended, after the interval."""
        for half_offset in half_offsets:
            self._waiting.append(half_offset)
            self._bytes += len(str(half_offset)) + len(_SEPARATOR)
        if self._waiting:
            self._first_came.set()

    def write(self) -> None:
        """Write all ends that wait. Ends that the store does not take go on waiting."""
        limit = self._config.now.transaction_op_bytes_max
        while self._waiting:
            body, named = _body(self._waiting, limit)
            result = self._store.put(self._message(body, are_all=len(named) == len(self._waiting)))
            if result.status is not PutStatus.OK:
                self._warnings.warn("put", "ends of transactions wait: %s %s", result.status.name, result.reason)
                return
            for _ in named:
                self._waiting.popleft()
            self._bytes -= len(body)
            self._ledger.named(result.queue_offset, named)
        self._first_came.clear()

    async def _write_next(self) -> None:
        await self._first_came.wait()
        await self._clock.sleep(self._config.now.transaction_op_interval_ms / 1000)
        self.write()

    def _message(self, body: bytes, *, are_all: bool) -> PutMessage:
        host = self._store_host()
        properties = _PROPERTIES_ALL if are_all else _PROPERTIES
        return PutMessage(
            OP_TOPIC,
            HALF_QUEUE,
            body,
            properties,
            born_ms=self._clock.now_ms(),
            born_host=host,
            store_host=host,
            is_own=True,
        )


def half_offsets(body: bytes) -> Iterator[QueueOffset]:
    """The half queue offsets in the body of an op message; old brokers wrote a single one without a comma."""
    for text in body.split(_SEPARATOR.encode()):
        if text.isdigit():
            yield QueueOffset(text)


def _body(waiting: Iterable[QueueOffset], limit: int) -> tuple[bytes, list[QueueOffset]]:
    """The body of one op message, and the ends it names: enough of them to reach `limit` bytes."""
    texts: list[str] = []
    named: list[QueueOffset] = []
    size = 0
    for half_offset in waiting:
        if size >= limit:
            break
        texts.append(f"{half_offset}{_SEPARATOR}")
        named.append(half_offset)
        size += len(texts[-1])
    return "".join(texts).encode(), named
