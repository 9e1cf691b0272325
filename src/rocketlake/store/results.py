"""The answers of the store: put, get and query results.

Owns        the status names and the fields of each answer.
Must not know   how the answers come about, response codes of the protocol.

Rules: docs/internals/store_layout.md, "Answers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rocketlake.base.clock import Millis
from rocketlake.model.positions import PhysicalOffset, QueueOffset

__all__ = [
    "PIECE_BYTES_MIN",
    "ColdPart",
    "GetResult",
    "GetStatus",
    "PutMessage",
    "PutResult",
    "PutStatus",
    "QueryResult",
]

PIECE_BYTES_MIN = 8192
"""Pieces of an answer that are smaller on average are copied into one: many cost more to hand over than to copy. See
docs/decisions/0002 and 0008."""


_START = PhysicalOffset(0)
_NOWHERE = PhysicalOffset(-1)
_NEVER = Millis(0)
_FIRST = QueueOffset(0)
_NO_NUMBER = QueueOffset(-1)


class PutStatus(Enum):
    """The outcome of one put. Those of `_STORED` mean that the message is stored."""

    OK = "ok"
    FLUSH_DISK_TIMEOUT = "flush disk timeout"
    FLUSH_SLAVE_TIMEOUT = "flush slave timeout"
    SLAVE_NOT_AVAILABLE = "slave not available"
    SERVICE_NOT_AVAILABLE = "service not available"
    DISK_FULL = "disk full"
    POOL_BUSY = "write pool busy"
    CREATE_FILE_FAILED = "create file failed"
    MESSAGE_ILLEGAL = "message illegal"
    PROPERTIES_TOO_LONG = "properties too long"
    UNKNOWN = "unknown error"

    @property
    def is_stored(self) -> bool:
        """True when the message lies in the log and will be delivered, even if the asked durability is not reached."""
        return self is PutStatus.OK or self in _STORED  # the usual one first: an Enum hashes slowly


_STORED = frozenset(
    (PutStatus.OK, PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.SLAVE_NOT_AVAILABLE)
)


class GetStatus(Enum):
    """Outcome of a read by queue offset."""

    FOUND = "found"
    NO_MATCHED_MESSAGE = "no matched message"
    MESSAGE_WAS_REMOVING = "message was removing"
    OFFSET_FOUND_NULL = "offset found null"
    OFFSET_OVERFLOW_BADLY = "offset overflow badly"
    OFFSET_OVERFLOW_ONE = "offset overflow one"
    OFFSET_TOO_SMALL = "offset too small"
    NO_MATCHED_LOGIC_QUEUE = "no matched logic queue"
    NO_MESSAGE_IN_QUEUE = "no message in queue"
    OFFSET_RESET = "offset reset"
    NOT_IN_MEMORY = "not in memory"
    """Only for readers that must not wait for the disk: `cold` names the parts to load first."""


@dataclass(slots=True)
class PutMessage:
    """One message (or one batch body) to append. `properties` is the final property text, hosts are encoded bytes."""

    topic: str
    queue_id: int
    body: bytes | bytearray | memoryview
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    reconsume_times: int = 0
    prepared_transaction_offset: PhysicalOffset = _START
    is_own: bool = False
    """True for what the broker stores by itself, a copy of a message perhaps: maxMessageSize does not hold for it."""


@dataclass(slots=True)
class PutResult:
    """Where a message was appended. Offsets are -1 when the status says that nothing was stored."""

    status: PutStatus
    physical_offset: PhysicalOffset = _NOWHERE
    size: int = 0
    queue_offset: QueueOffset = _NO_NUMBER
    store_ms: Millis = _NEVER
    next_offset: PhysicalOffset = _NOWHERE
    reason: str = ""
    count: int = 1
    offsets: Sequence[PhysicalOffset] = ()
    """Physical offset of each record of a batch; empty for a single message."""


ColdPart = tuple[Path, int, int]
"""(file, position, bytes) of bytes that must be read from disk first."""


@dataclass(slots=True)
class GetResult:
    """Records found, as slices of mapped files, valid as long as they are held; `next_offset` is a queue offset.

    Neighbours in the log share a slice: `count` says how many records there are.
    """

    status: GetStatus
    slices: list[memoryview] = field(default_factory=list)
    next_offset: QueueOffset = _FIRST
    min_offset: QueueOffset = _FIRST
    max_offset: QueueOffset = _FIRST
    bytes: int = 0
    count: int = 0
    cold: list[ColdPart] = field(default_factory=list)
    offsets: range | None = None
    """The queue offsets of the records, if they are neighbours in the queue and it is sure; None: read the records."""


@dataclass(slots=True)
class QueryResult:
    """Records found by key, oldest first, and how far the newest index file reaches."""

    slices: list[memoryview] = field(default_factory=list)
    index_last_ms: Millis = _NEVER
    index_last_offset: PhysicalOffset = _START
