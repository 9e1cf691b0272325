"""Types of the numbers that name a place or a time, so that mypy refuses one where another is wanted.

Owns        QueueOffset, PhysicalOffset, Millis.
Must not know   how offsets and times are stored, sent or worked out.

Each type is a plain int at run time: a value costs nothing. A number gets its type where it comes in (a decoded header,
a setting, a constant), never in a loop over messages. A sum keeps the type; a difference is a plain number, a distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Millis", "PhysicalOffset", "QueueOffset"]

if TYPE_CHECKING:

    class QueueOffset(int):
        """The number of a message in its queue."""

        def __add__(self, other: int, /) -> QueueOffset: ...
        def __radd__(self, other: int, /) -> QueueOffset: ...

    class PhysicalOffset(int):
        """A byte position in the commit log."""

        def __add__(self, other: int, /) -> PhysicalOffset: ...
        def __radd__(self, other: int, /) -> PhysicalOffset: ...

    class Millis(int):
        """A time in milliseconds since 1970."""

        def __add__(self, other: int, /) -> Millis: ...
        def __radd__(self, other: int, /) -> Millis: ...

else:
    QueueOffset = PhysicalOffset = Millis = int
