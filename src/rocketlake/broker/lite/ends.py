"""The ends of the light queues of one parent.

Owns        the pieces in which they lie.
Must not know   what an end says (light_queues.py).

A dict of millions holds up the loop when it grows, is freed or has its keys listed, a piece of it for a moment only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

__all__ = ["Ends", "Key"]

_PIECES = 64

Key: TypeAlias = int
"""Hash of 128 bits of a lite topic's name: a number is a third of the memory of a long name."""


class Ends:
    """Light queue -> its packed end, which is not 0."""

    __slots__ = ("_count", "_pieces")

    def __init__(self) -> None:
        self._count = 0
        self._pieces: list[dict[Key, int]] = [{} for _ in range(_PIECES)]

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key) -> int:
        """The end of a light queue; 0 if it is not there."""
        return self._pieces[key % _PIECES].get(key, 0)

    def put(self, key: Key, end: int) -> None:
        """The light queue ends here now."""
        piece = self._pieces[key % _PIECES]
        before = len(piece)
        piece[key] = end
        self._count += len(piece) - before

    def drop(self, key: Key) -> None:
        """Forget a light queue that is there."""
        del self._pieces[key % _PIECES][key]
        self._count -= 1

    def steps(self, at_once: int) -> Iterator[list[tuple[Key, int]]]:
        """All light queues, at most so many at a step, as they are then. Between steps any may change, come or go."""
        for piece in self._pieces:
            keys = list(piece)
            for first in range(0, len(keys), at_once):
                yield [(key, piece[key]) for key in keys[first : first + at_once] if key in piece]

    def free(self) -> Iterator[None]:
        """Free the memory, a part at each step. Who goes through the table still finds less and less."""
        for piece in self._pieces:
            self._count -= len(piece)
            piece.clear()
            yield
