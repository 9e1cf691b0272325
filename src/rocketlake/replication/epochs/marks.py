"""Do two logs that give a stretch to one epoch have the same records there?

Owns        the mark of a record, which records are compared, how far the logs agree then.
Must not know   how a master is asked for a mark, why a number was given twice.

Histories compare epochs by their numbers. A number is given twice when the register of a controller was put back from a
backup, and two masters have written bytes of it then. So one record of the newest stretch that both logs have is
compared: where its store time, its store host and all the rest are the same, one master wrote it, and each log that has
it has all that is before it. A difference means that this stretch is another master's, and the one before is looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rocketlake.codec.record_layout import MAGIC_BLANK
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.history import EpochHistory
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.mapped_file import Bytes

__all__ = ["BLANK", "GONE", "MarkAt", "mark_at", "mark_of", "shared_end"]

MarkAt: TypeAlias = Callable[[PhysicalOffset], Awaitable[str]]
"""The mark of the record at a physical offset of one log; BLANK, GONE."""

BLANK = "blank"
"""No record: the rest of a file."""
GONE = ""
"""The log begins behind this place, or nobody can tell the mark."""

_HEAD_BYTES = 100
"""Of a record: all fields before its body, with hosts of IPv6 most of them."""
_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)


def mark_of(record: Bytes) -> str:
    """The mark of the record that these bytes begin with; it tells nothing of what is in them."""
    if len(record) < 8 or record[4:8] == _MAGIC:
        return BLANK
    size = min(int.from_bytes(record[:4], "big"), _HEAD_BYTES)
    return hashlib.sha256(record[:size]).hexdigest()[:32]


def mark_at(log: CommitLog, offset: PhysicalOffset) -> str:
    """The mark of the record that starts at `offset`, also of one that nobody may read yet. Raises NotInMemory."""
    mapped = log.list.find(offset)
    if mapped is None or offset < 0:
        return GONE
    size = min(_HEAD_BYTES, mapped.readable - (offset - mapped.start))
    return mark_of(log.view(offset, size) or b"") if size > 0 else BLANK


async def shared_end(
    history: EpochHistory,
    end: PhysicalOffset,
    file_bytes: int,
    mine: MarkAt,
    masters: MarkAt,
    *,
    damaged: PhysicalOffset | None = None,
) -> PhysicalOffset:
    """The physical offset up to which two logs are the same. `end`: up to where their histories agree.

    `history`: of one of them. `file_bytes`: of a file of both logs: at its start a record starts.
    `damaged`: the record of ours that says nothing because the disk lost it.
    """
    same = end
    """The result, if the record that is looked at next is the same in both."""
    while end > 0 and (epoch := history.at(PhysicalOffset(end - 1))) is not None:
        place = PhysicalOffset(max(epoch.start, (end - 1) // file_bytes * file_bytes))
        if place == damaged:
            end = place  # the one before it tells
            continue
        own = await mine(place)
        other = GONE if own == GONE else await masters(place)
        if GONE in (own, other) or own == other != BLANK:
            break
        end = epoch.start
        if own != other:  # else the epoch has no record here, and those before it tell
            same = end
    return same
