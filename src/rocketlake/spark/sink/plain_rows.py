"""Rows become entries of a batch body, one by one: the Python form of codec/column_batch.pyx.

Owns        the rule which rows make a message, their property text, the cut of a body at its size.
Must not know   Arrow's buffers, topics, queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketlake.codec.record_batch import encode_batch
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.identity import BATCH_PROPERTY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PlainRows", "Row", "is_left_out"]

_SEPARATORS = (names.NAME_SEPARATOR, names.PAIR_SEPARATOR)
_OWN = frozenset((names.SHARDING_KEY, BATCH_PROPERTY))
_UNIQUE_BYTES = 42
_NUMBER_BYTES_MAX = 20


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row; None: missing."""

    body: bytes | None
    tags: str | None = None
    keys: str | None = None
    sharding_key: str | None = None
    properties: Sequence[tuple[str, str | None]] = ()


def is_left_out(name: str) -> bool:
    """True for a property that the sink does not take from the map: one of RocketMQ's or its own, or without a name."""
    return not name or name in names.RESERVED or name in _OWN or name.startswith("INNER_")


class PlainRows:
    """The rows of one Arrow batch. `faults`: a byte for each row, 0 when it makes a message."""

    def __init__(
        self, rows: Sequence[Row], message_bytes_max: int, properties_bytes_max: int, row_key_bytes: int
    ) -> None:
        """`message_bytes_max` holds for the entry of a batch: a body with its properties.

        `row_key_bytes`: room for the key that `encode` adds to each row, 0 if none.
        """
        self._rows = rows
        self._row_key_bytes = row_key_bytes
        self._texts = [_properties(row) for row in rows]
        self.faults = bytes(self._fault(number, message_bytes_max, properties_bytes_max) for number in range(len(rows)))

    def _fault(self, number: int, message_bytes_max: int, properties_bytes_max: int) -> Fault:
        row = self._rows[number]
        if not row.body:
            return Fault.NO_BODY
        if len(row.body) > message_bytes_max:
            return Fault.BODY_TOO_LONG
        if any(mark in text for pair in self._texts[number] for text in pair for mark in _SEPARATORS):
            return Fault.SEPARATOR
        size = self._properties_bytes(number)
        if size > properties_bytes_max:
            return Fault.PROPERTIES_TOO_LONG
        is_too_long = BATCH_ENTRY_BYTES_MIN + len(row.body) + size > message_bytes_max
        return Fault.BODY_TOO_LONG if is_too_long else Fault.NONE

    def _properties_bytes(self, number: int) -> int:
        """Upper bound of the property text's bytes."""
        size = _UNIQUE_BYTES + sum(len(name.encode()) + len(value.encode()) + 2 for name, value in self._texts[number])
        if self._row_key_bytes:
            size += self._row_key_bytes + (1 if self._rows[number].keys else 7)
        elif self._rows[number].keys:
            size += 1
        return size

    def encode(
        self,
        rows: Sequence[int] | NDArray[np.int32],
        start: int,
        bytes_max: int,
        count_max: int,
        unique_prefix: bytes,
        key_prefix: bytes,
        first_number: int,
    ) -> tuple[bytes, int]:
        """(batch body, rows taken) of the rows numbered `rows[start:]`, at least one, as far as they fit.

        A row's number in its task is `first_number` + its number here; it ends its unique key, and the key that starts
        with `key_prefix` (b"": none is added).
        """
        total = count = 0
        for row in rows[start:]:
            size = BATCH_ENTRY_BYTES_MIN + len(self._rows[row].body or b"") + self._properties_bytes(row)
            if count and (total + size > bytes_max or count == count_max):
                break
            total += size
            count += 1
        taken = rows[start : start + count]
        messages = [self.message("", int(row), unique_prefix, key_prefix, first_number) for row in taken]
        return encode_batch(messages), count

    def message(self, topic: str, row: int, unique_prefix: bytes, key_prefix: bytes, first_number: int) -> Message:
        """One row as a message."""
        number = first_number + row
        pairs: dict[str, str] = {}
        others: list[tuple[str, str]] = []
        for name, value in self._texts[row]:
            if name in _FIRST:
                pairs[name] = value
            else:
                others.append((name, value))
        if key_prefix:
            own = f"{key_prefix.decode()}{number}"
            pairs[names.KEYS] = f"{pairs[names.KEYS]} {own}" if names.KEYS in pairs else own
        ordered = {name: pairs[name] for name in _FIRST if name in pairs} | dict(others)
        ordered[names.UNIQUE_KEY] = f"{unique_prefix.decode()}{number & 0xFFFFFFFF:08X}"
        return Message.with_properties(topic, self._rows[row].body or b"", ordered)


_FIRST = (names.TAGS, names.KEYS, names.SHARDING_KEY)


def _properties(row: Row) -> list[tuple[str, str]]:
    own: Mapping[str, str | None] = {
        names.TAGS: row.tags,
        names.KEYS: row.keys,
        names.SHARDING_KEY: row.sharding_key,
    }
    pairs = [*own.items(), *((name, value) for name, value in row.properties if not is_left_out(name))]
    return [(name, value) for name, value in pairs if value]
