"""Types of the numbers that name a place, so that mypy refuses one where another is wanted.

Owns        Position and its kinds: QueueOffset, PhysicalOffset, EntryPosition.
Must not know   how offsets are stored, sent or worked out.

Each type is a plain int at run time: a value costs nothing. A number gets its type where it comes in (a decoded header,
a setting, a constant), never in a loop over messages. A place and a plain number give a place, by `+` and by `-`; a
place less a place of the same kind is a plain number, their distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["EntryPosition", "PhysicalOffset", "Position", "QueueOffset"]

if TYPE_CHECKING:
    from typing import Self, overload

    class Position(int):
        """A place in a row of messages or bytes."""

        def __add__(self, other: int, /) -> Self: ...
        def __radd__(self, other: int, /) -> Self: ...
        @overload
        def __sub__(self, other: Self, /) -> int: ...  # type: ignore[overload-overlap]  # a place is an int, too
        @overload
        def __sub__(self, other: int, /) -> Self: ...
        def __sub__(self, other: int, /) -> int: ...

    class QueueOffset(Position):
        """The number of a message in its queue."""

    class PhysicalOffset(Position):
        """A byte position in the commit log."""

    class EntryPosition(Position):
        """A byte position in the entries of a consume queue."""

else:
    Position = QueueOffset = PhysicalOffset = EntryPosition = int
