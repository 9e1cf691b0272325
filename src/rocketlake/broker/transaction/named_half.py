"""The half message that an end of a transaction names.

Owns        the checks of an end in RocketMQ's order (the first one that fails is what the producer hears).
Must not know   requests, whether the transaction is ended already, what the end does.

Rules: RocketMQ's EndTransactionProcessor; the remarks are Apache's words. A message may ask not to be checked for a
time: an end that comes later is refused, unless it answers a check.
"""

from __future__ import annotations

import re

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.ledger import HalfLedger, not_known
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.headers.transaction import EndTransactionHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["NamedHalf"]

_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")


class NamedHalf:
    """Finds half messages by what their producers say of them."""

    def __init__(self, config: LiveConfig, store: MessageStore, ledger: HalfLedger, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._ledger = ledger
        self._clock = clock

    def find(self, header: EndTransactionHeader) -> StoredMessage:
        """The half message; RemoteError says what of the end does not fit to it."""
        if not self._ledger.is_known:
            raise not_known()
        half = halves.read_half(self._store, PhysicalOffset(header.commit_log_offset))
        if half is None:
            raise _refused("Find prepared transaction message failed")
        if not header.from_transaction_check and self._is_late(half):
            raise RemoteError(
                "the transaction ends later than its message asked not to be checked",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint="wait: the producer will be asked about it",
            )
        if halves.producer_group(half) != header.producer_group:
            raise _refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _refused("The transaction state table offset wrong")
        if _means_another(header, half):
            raise _refused("The transaction id wrong: this half message was lost, another lies at its place")
        return half

    def _is_late(self, half: StoredMessage) -> bool:
        immune_ms = halves.immune_ms(half)
        if immune_ms is None:
            return False
        age_ms = self._clock.now_ms() - half.born_ms
        return age_ms > max(immune_ms, self._config.now.transaction_timeout_ms)


def _means_another(header: EndTransactionHeader, half: StoredMessage) -> bool:
    """True if the end names another message than the one at its place. After a power cut places are given out anew."""
    named = [text for text in (header.transaction_id, header.msg_id) if text]
    if not half.unique_key or half.unique_key in named or half.offset_message_id in named:
        return False
    return any(len(text) == len(half.unique_key) and _HEXADECIMAL.fullmatch(text) for text in named)


def _refused(remark: str) -> RemoteError:
    return RemoteError(remark, code=ResponseCode.SYSTEM_ERROR)
