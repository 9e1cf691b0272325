"""RESUME_CHECK_HALF_MESSAGE: an administrator brings back a half message that was given up.

Owns        the condition: its transaction is neither ended nor open already.
Must not know   requests.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Millis
from rocketlake.base.errors import RemoteError
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.ledger import HalfLedger, Standing, not_known
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, transaction_type
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["ResumeCheck"]

_ALREADY = PutResult(PutStatus.OK, count=0)
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 32


class ResumeCheck:
    """Puts half messages back that were given up."""

    def __init__(self, store: MessageStore, ledger: HalfLedger, ops: TransactionOps) -> None:
        self._store = store
        self._ledger = ledger
        self._ops = ops

    def put_back(self, physical_offset: PhysicalOffset, check: Callable[[str], object]) -> PutResult:
        """Put the half message at this place back, to be asked about. RemoteError says why it may not come back.

        `check` is given the topic of the message first: it may raise.
        """
        if not self._ledger.is_known:
            raise not_known()
        half = halves.read_half(self._store, physical_offset, given_up=True)
        if half is None:
            raise _refused(f"no half message at {physical_offset}")
        check(halves.target(half)[0])
        if half.topic == HALF_TOPIC:
            return self._of_half_topic(half)
        if names.TRANSACTION_PREPARED_QUEUE_OFFSET not in half.properties:  # given up by another broker
            return self._store.put(_copy(half, None))
        name = halves.prepared_offset(half)
        if self._ledger.is_open(name):
            return _ALREADY
        if self._ledger.at(name) in (Standing.COMMITTED, Standing.ROLLED_BACK) or self._is_committed(half, name):
            raise _refused("the transaction is ended already")
        self._ops.write()  # the note that it was given up must lie before its new copy
        result = self._store.put(_copy(half, name))
        if result.status is PutStatus.OK:
            self._ledger.link(name, [result.queue_offset])
        return result

    def _of_half_topic(self, half: StoredMessage) -> PutResult:
        standing = self._ledger.standing(half)
        if standing is Standing.OPEN:
            return _ALREADY
        raise _refused(
            "the transaction is ended already", "if it was given up, name its message in TRANS_CHECK_MAX_TIME_TOPIC"
        )

    def _is_committed(self, half: StoredMessage, name: QueueOffset) -> bool:
        """True if its topic holds the committed message, as far back as the key index goes."""
        topic, _ = halves.target(half)
        if not half.unique_key:
            return False
        found = self._store.query(topic, half.unique_key, _HITS_MAX, Millis(half.store_ms), _ANY_TIME, unique=True)
        return any(
            transaction_type(message.sys_flag) == TRANSACTION_COMMIT and halves.prepared_offset(message) == name
            for message in decode_records(b"".join(found.slices), check_crc=False, decompress=False)
        )


def _copy(half: StoredMessage, name: QueueOffset | None) -> PutMessage:
    return halves.put_back_copy(half, name, checked=0)


def _refused(what: str, hint: str = "") -> RemoteError:
    return RemoteError(what, code=ResponseCode.SYSTEM_ERROR, hint=hint)
