"""Types of the numbers that name a place, so that mypy refuses one where another is wanted.

Owns        the kinds of positions: QueueOffset, PhysicalOffset, EntryPosition.
Must not know   how offsets are stored, sent or worked out.

Each type is a plain int at run time; its base stands in base/clock.py. A number gets its type where it comes in (a
decoded header, a setting, a constant), never in a loop over messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketlake.base.clock import Point

__all__ = ["EntryPosition", "PhysicalOffset", "QueueOffset"]

if TYPE_CHECKING:

    class QueueOffset(Point):
        """The number of a message in its queue."""

    class PhysicalOffset(Point):
        """A byte position in the commit log."""

    class EntryPosition(Point):
        """A byte position in the entries of a consume queue."""

else:
    QueueOffset = PhysicalOffset = EntryPosition = int
