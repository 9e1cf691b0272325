"""The bytes of the timer wheel, the timer log and their checkpoint.

Owns        the fields and their places.
Must not know   files.

Source: Apache's store/timer (TimerWheel, Slot, TimerLog, TimerCheckpoint).
Bytes: docs/internals/store_layout.md, "Timer".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "BLANK_BYTES",
    "CHECKPOINT",
    "CHECKPOINT_BYTES",
    "DELETE",
    "DUE",
    "NOWHERE",
    "OURS",
    "ROLL",
    "SLOTS",
    "SLOTS_A_ROUND",
    "SLOT_BYTES",
    "UNIT",
    "UNIT_BYTES",
    "Slot",
    "Unit",
    "is_blank",
    "pack_blank",
    "pack_slot",
    "pack_unit",
    "unpack_slots",
    "unpack_unit",
]

SLOTS_A_ROUND: Final = 7 * 24 * 3600
"""So many ticks ahead a message may wait in the wheel."""
SLOTS: Final = 2 * SLOTS_A_ROUND
SLOT: Final = struct.Struct(">qqqii")
SLOT_BYTES: Final = SLOT.size
NOWHERE: Final = -1
OURS: Final = 0x524C
"""In a field that Apache does not use."""

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = UNIT.size
BLANK: Final = struct.Struct(">iqI")
BLANK_BYTES: Final = BLANK.size
_BLANK_MAGIC: Final = 0xCBD43194
DUE, ROLL, DELETE = 1, 2, 4
"""Bits of a unit: the message is delivered at its tick, or waits on for another round; it takes another one back."""

CHECKPOINT_BYTES: Final = 4096
CHECKPOINT: Final = struct.Struct(">7q")

assert (SLOT_BYTES, UNIT_BYTES, BLANK_BYTES, CHECKPOINT.size) == (32, 52, 16, 56)


class Slot(NamedTuple):
    """The messages of one tick: places of the first and last of their units in the timer log, and how many wait."""

    first: int
    last: int
    waiting: int
    mark: int = 0
    """OURS in a slot that this broker wrote: it is cleared when its tick is delivered. Apache's are not."""


class Unit(NamedTuple):
    """One message in the timer log."""

    previous: int
    """Place of the unit before it in the same slot; NOWHERE: it is the first."""
    bits: int
    due_ms: int
    """The time for which it was put into the wheel."""
    physical_offset: int
    size: int
    """Of its record in the commit log."""
    topic_hash: int = 0
    """Java's hash of the topic that the message is for."""


def pack_slot(tick: int, slot: Slot) -> bytes:
    """A slot; `tick`: its time divided by the precision."""
    return SLOT.pack(tick, slot.first, slot.last, slot.waiting, OURS)


def unpack_slots(data: bytes) -> Iterator[tuple[int, Slot]]:
    """(tick, slot) of each; tick 0 or NOWHERE: nothing waits there."""
    for tick, first, last, waiting, mark in SLOT.iter_unpack(data):
        yield tick, Slot(first, last, waiting, mark)


def pack_unit(unit: Unit, written_ms: int, topic_hash: int) -> bytes:
    """A unit; `written_ms`: when it is put into the wheel; `topic_hash`: Java's hash of the real topic."""
    delay_ms = unit.due_ms - written_ms
    return UNIT.pack(
        UNIT_BYTES, unit.previous, unit.bits, written_ms, delay_ms, unit.physical_offset, unit.size, topic_hash, 0
    )


def unpack_unit(data: bytes, at: int = 0) -> Unit | None:
    """None where no unit lies."""
    size, previous, bits, written_ms, delay_ms, physical_offset, record_bytes, topic_hash, _zero = UNIT.unpack_from(
        data, at
    )
    if size != UNIT_BYTES or not 0 < bits <= 0xF:
        return None
    return Unit(previous, bits, written_ms + delay_ms, physical_offset, record_bytes, topic_hash)


def pack_blank(size: int) -> bytes:
    """What fills the end of a file: its next unit lies in the next file."""
    return BLANK.pack(size, 0, _BLANK_MAGIC).ljust(size, b"\0")


def is_blank(data: bytes, at: int, size: int) -> bool:
    """True if a blank of this size lies there."""
    return BLANK.unpack_from(data, at) == (size, 0, _BLANK_MAGIC)
