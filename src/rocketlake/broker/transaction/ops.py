"""Which half messages are ended: op messages name them, many in one.

Owns        the ends not yet written, when an op message is written, which ends were seen lately.
Must not know   half messages, progress, what an end means.

Rule (RocketMQ's TransactionalOpBatchService): an op message lies in queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC, has the
tag "d", and its body is half queue offsets, each with a comma behind it: `12,15,`. It is written when
transactionOpMsgMaxSize bytes are there, or transactionOpBatchInterval after the first of them.

An end whose op message is lost in a crash, or cannot be written, is no loss: the half message is asked about again, and
ended once more. Apache forgets ends it could not write; here they wait for the next try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.topic import OP_TOPIC
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

__all__ = ["REMOVE_TAG", "TransactionOps", "half_offsets"]

_log = get_logger(__name__)

REMOVE_TAG = "d"
_SEPARATOR = ","
_PROPERTIES = property_text.encode({names.WAIT: "true", names.TAGS: REMOVE_TAG})
_WAITING_MAX = 20_000
"""Ends that may wait for an op message, as in RocketMQ; those above it are asked about again."""
_KNOWN_MAX = 100_000
"""Ends that are remembered after they were written."""


class TransactionOps(Service):
    """Collects ends and writes them."""

    def __init__(self, store: MessageStore, config: LiveConfig, clock: Clock, store_host: Callable[[], bytes]) -> None:
        """`store_host`: this broker's address as records carry it."""
        super().__init__("transaction-ops", clock)
        self._store = store
        self._config = config
        self._store_host = store_host
        self._warnings = RareWarnings(_log, clock=clock)
        self._waiting: list[int] = []
        self._bytes = 0
        self._known: dict[int, None] = {}
        self._first_came = asyncio.Event()

    async def start(self) -> None:
        """Begin to write what waits for too long."""
        await super().start()
        self.keep("writing", self._write_next)

    async def stop(self) -> None:
        """Write what is there."""
        await super().stop()
        self.write()

    def is_ended(self, half_offset: int) -> bool:
        """Was the half message ended lately, by this process? False says nothing."""
        return half_offset in self._known

    def claim(self, half_offset: int) -> bool:
        """Take a half message for ending; False if it is known to be ended, or somebody is at it."""
        if half_offset in self._known:
            return False
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[half_offset] = None
        return True

    def release(self, half_offset: int) -> None:
        """A claimed one was not ended."""
        self._known.pop(half_offset, None)

    def add(self, half_offset: int) -> None:
        """A claimed one is ended: note it on disk soon."""
        if len(self._waiting) >= _WAITING_MAX:
            self._warnings.warn("full", "too many ends of transactions wait to be written; producers are asked again")
            return
        self._waiting.append(half_offset)
        self._bytes += len(str(half_offset)) + len(_SEPARATOR)
        self._first_came.set()
        if self._bytes > self._config.now.transaction_op_bytes_max:
            self.write()

    def write(self) -> None:
        """Write all ends that wait; those the store does not take stay."""
        limit = self._config.now.transaction_op_bytes_max
        while self._waiting:
            body, count = _body(self._waiting, limit)
            result = self._store.put(self._message(body))
            if result.status is not PutStatus.OK:
                self._warnings.warn("put", "ends of transactions wait: %s %s", result.status.name, result.reason)
                return
            del self._waiting[:count]
            self._bytes -= len(body)
        self._first_came.clear()

    async def _write_next(self) -> None:
        await self._first_came.wait()
        await self._clock.sleep(self._config.now.transaction_op_interval_ms / 1000)
        self.write()

    def _message(self, body: bytes) -> PutMessage:
        host = self._store_host()
        return PutMessage(
            OP_TOPIC, HALF_QUEUE, body, _PROPERTIES, born_ms=self._clock.now_ms(), born_host=host, store_host=host
        )


def half_offsets(body: bytes) -> Iterator[int]:
    """The half queue offsets in the body of an op message; old brokers wrote a single one without a comma."""
    for text in body.split(_SEPARATOR.encode()):
        if text.isdigit():
            yield int(text)


def _body(waiting: list[int], limit: int) -> tuple[bytes, int]:
    """The body of one op message, and how many ends it holds: as many as it takes to reach `limit` bytes."""
    texts: list[str] = []
    size = 0
    for half_offset in waiting:
        if size >= limit:
            break
        texts.append(f"{half_offset}{_SEPARATOR}")
        size += len(texts[-1])
    return "".join(texts).encode(), len(texts)
