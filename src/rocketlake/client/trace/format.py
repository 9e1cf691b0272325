"""The text of RocketMQ's message trace: records of fields, as all its clients and tools write and read them.

Owns        the records, their fields in order, the text of each field, the keys by which a record is found.
Must not know   when a record is made, how it travels.

Source: Java TraceDataEncoder, TraceBean. Fields are separated by \\x01, each record ends with \\x02. There is no
escape: the texts are names, ids, tags and keys, which hold neither. A value that is not there is the text "null".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from typing import Any

from rocketlake.model.property_names import KEY_SEPARATOR

__all__ = [
    "ConsumeCode",
    "EndTransaction",
    "MessageType",
    "Pub",
    "Recall",
    "Record",
    "SubAfter",
    "SubBefore",
    "TransactionState",
    "decode",
    "encode",
    "keys_of",
]

FIELD_SEPARATOR = "\x01"
RECORD_END = "\x02"
_NULL = "null"


class MessageType(IntEnum):
    """What was sent; the values are those on the wire."""

    NORMAL = 0
    HALF = 1
    TRANSACTION_END = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeCode(IntEnum):
    """How a listener's call ended; the values are those on the wire."""

    SUCCESS = 0
    TIMED_OUT = 1
    RAISED = 2
    RETURNED_NULL = 3
    FAILED = 4


class TransactionState(Enum):
    """How a transaction ended; the values are those on the wire."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


@dataclass(frozen=True, slots=True)
class Pub:
    """A message was sent, and a broker answered. Times are epoch ms, `at_ms` the start; hosts are "ip:port"."""

    at_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_bytes: int
    cost_ms: int
    message_type: MessageType
    offset_message_id: str | None
    is_success: bool
    """The broker stored it as safely as its settings ask."""


@dataclass(frozen=True, slots=True)
class SubBefore:
    """A listener got the message. `request_id` is the same in the SubAfter of this call."""

    at_ms: int
    region: str | None
    group: str | None
    request_id: str
    message_id: str
    retries: int
    keys: str | None


@dataclass(frozen=True, slots=True)
class SubAfter:
    """A listener was done with the message. `cost_ms`: of the call, divided by the number of its messages."""

    request_id: str
    message_id: str
    cost_ms: int
    is_success: bool
    keys: str | None
    code: ConsumeCode = ConsumeCode.SUCCESS
    at_ms: int = 0
    """0: not known, as is a `group` of "". Old clients write neither."""
    group: str | None = ""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A producer told a broker how a transaction ended; `is_checked`: because the broker asked."""

    at_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    message_type: MessageType
    transaction_id: str | None
    state: TransactionState
    is_checked: bool


@dataclass(frozen=True, slots=True)
class Recall:
    """A producer asked for a delayed message back."""

    at_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    is_success: bool


Record = Pub | SubBefore | SubAfter | EndTransaction | Recall
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in (Pub, SubBefore, SubAfter, EndTransaction, Recall)}


def encode(record: Record) -> str:
    """One record."""
    values = (type(record).__name__, *(_text(getattr(record, name)) for name in _NAMES[type(record)]))
    return FIELD_SEPARATOR.join(values) + RECORD_END


def _text(value: object) -> str:
    if type(value) is str:
        return _clean(value)
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)


def decode(text: str) -> list[Record]:
    """The records of a text. One that is broken or of an unknown kind is left out: others may be in the same text."""
    return list(_decoded(text))


def _decoded(text: str) -> Iterator[Record]:
    for line in text.split(RECORD_END):
        name, *values = line.split(FIELD_SEPARATOR)
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if kind is Pub and len(values) == len(_READERS[Pub]) - 1:
            values.insert(-1, "")  # of a client that knows no offset id
        if kind is SubAfter and values[6:7] == [""]:
            del values[6:]  # of a client in Alibaba's cloud
        try:
            given = [read(value) for read, value in zip(_READERS[kind], values, strict=False)]
            yield kind(*given)
        except (TypeError, ValueError):
            continue


def keys_of(record: Record) -> tuple[str, ...]:
    """The id and the keys of the message that the record tells of: a trace message carries them as its keys."""
    if isinstance(record, Recall) or not record.keys:
        return (record.message_id,)
    return (record.message_id, *(key for key in _clean(record.keys).split(KEY_SEPARATOR) if key))


def _clean(text: str) -> str:
    """Without separators. Damaged messages may hold them in tags and keys."""
    if FIELD_SEPARATOR in text or RECORD_END in text:
        return text.replace(FIELD_SEPARATOR, "?").replace(RECORD_END, "?")
    return text


def _bool(text: str) -> bool:
    return text.lower() == "true"


def _optional(text: str) -> str | None:
    return None if text == _NULL else text


_BY_ANNOTATION: dict[str, Callable[[str], Any]] = {
    "int": int,
    "str": str,
    "str | None": _optional,
    "bool": _bool,
    "MessageType": lambda text: MessageType(int(text)),
    "ConsumeCode": lambda text: ConsumeCode(int(text)),
    "TransactionState": TransactionState,
}
_NAMES = {kind: tuple(entry.name for entry in fields(kind)) for kind in _KINDS.values()}
_READERS = {kind: tuple(_BY_ANNOTATION[str(entry.type)] for entry in fields(kind)) for kind in _KINDS.values()}
