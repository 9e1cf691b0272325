"""The frames of AutoSwitch HA (AutoSwitchHAClient, AutoSwitchHAConnection): their bytes and limits.

Owns        the layouts, and what no peer may say in them.
Must not know   connections, epochs of a store, what a frame leads to.

    slave     handshake   i4 state 1, i2 syncFromLastFile, i2 asyncLearner, i8 broker id
              report      i4 state 2, i8 end of its log
    master    answer      i4 state 1, i4 bytes of the entries, i8 end of its log, i4 last epoch;
                          entries: i4 epoch, i8 start
              transfer    i4 state 2, i4 bytes of the log, i8 offset, i4 epoch, i8 its start, i8 confirm offset;
                          the bytes
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rocketlake.base.errors import ProtocolError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.history import Epoch, EpochHistory

__all__ = [
    "HANDSHAKE",
    "REPORT",
    "STATE",
    "STATE_HANDSHAKE",
    "STATE_TRANSFER",
    "Answered",
    "Handshake",
    "Transfer",
    "answer",
    "read_answer",
    "read_handshake",
    "read_transfer",
    "transfer",
]

STATE_HANDSHAKE, STATE_TRANSFER = 1, 2
_ENTRIES_MAX = 1000
"""More overflow the buffer of Apache's master; its slave takes no more from us."""
_BODY_BYTES_MAX = 4 * 1024 * 1024

STATE = struct.Struct(">i")
HANDSHAKE = struct.Struct(">ihhq")
REPORT = struct.Struct(">iq")
_ANSWER = struct.Struct(">iiqi")
_ENTRY = struct.Struct(">iq")
_TRANSFER = struct.Struct(">iiqiqq")


class Handshake(NamedTuple):
    """What a slave says of itself."""

    from_last_file: bool
    is_learner: bool
    broker_id: int


class Answered(NamedTuple):
    """What a master says of its log."""

    end: PhysicalOffset
    history: EpochHistory


class Transfer(NamedTuple):
    """The head of bytes of the log."""

    size: int
    offset: PhysicalOffset
    epoch: Epoch
    confirm: PhysicalOffset


def read_handshake(data: memoryview) -> Handshake:
    """The handshake at the start of `data`, which has all its bytes. Raises ProtocolError."""
    _state, from_last_file, is_learner, broker_id = HANDSHAKE.unpack_from(data)
    if {from_last_file, is_learner} - {0, 1} or broker_id < 1:
        raise ProtocolError("its handshake is none of a broker in controller mode")
    return Handshake(bool(from_last_file), bool(is_learner), broker_id)


def answer(end: PhysicalOffset, history: EpochHistory) -> bytes:
    """A master's answer to a handshake: of its epochs the newest."""
    told = history.newest(_ENTRIES_MAX).epochs
    last = told[-1].number if told else -1
    head = _ANSWER.pack(STATE_HANDSHAKE, len(told) * _ENTRY.size, end, last)
    return head + b"".join(_ENTRY.pack(*epoch) for epoch in told)


def read_answer(data: memoryview) -> tuple[Answered, int] | None:
    """The answer at the start of `data` and its length; None while bytes are missing. Raises ProtocolError."""
    if len(data) < _ANSWER.size:
        return None
    _state, body_bytes, end, _last = _ANSWER.unpack_from(data)
    if not 0 <= body_bytes <= _BODY_BYTES_MAX or body_bytes % _ENTRY.size or end < 0:
        raise ProtocolError(f"it answers the handshake with {body_bytes} bytes of epochs and a log that ends at {end}")
    size = _ANSWER.size + body_bytes
    if len(data) < size:
        return None
    entries = _ENTRY.iter_unpack(data[_ANSWER.size : size])
    history = EpochHistory(Epoch(number, PhysicalOffset(start)) for number, start in entries)
    return Answered(PhysicalOffset(end), history), size


def transfer(size: int, offset: PhysicalOffset, epoch: Epoch, confirm: PhysicalOffset) -> bytes:
    """The head of `size` bytes of the log at `offset`, all of one epoch; size 0: a heartbeat."""
    return _TRANSFER.pack(STATE_TRANSFER, size, offset, *epoch, confirm)


def read_transfer(data: memoryview) -> tuple[Transfer, int] | None:
    """The head at the start of `data` and its length; None while bytes are missing. Raises ProtocolError.

    A master that has no file yet sends heartbeats with the offset -1.
    """
    if len(data) < _TRANSFER.size:
        return None
    _state, size, offset, number, start, confirm = _TRANSFER.unpack_from(data)
    if not 0 <= size <= _BODY_BYTES_MAX or (offset < 0 and size) or number < 0 or start < 0:
        raise ProtocolError(f"it sends {size} bytes at {offset} of epoch {number}, which starts at {start}")
    head = Transfer(size, PhysicalOffset(offset), Epoch(number, PhysicalOffset(start)), PhysicalOffset(confirm))
    return head, _TRANSFER.size
