"""Places that many share, such as those of waiting pulls: how many there are, and how many one of them may take.

Owns        the count of each owner, and of all; whose share a request is of.
Must not know   what a place is, what happens to those that get none.

Without a limit for one, the limit for all is a weapon: who takes every place keeps all others out.
"""

from __future__ import annotations

from rocketlake.net.request import Asker

__all__ = ["Shares", "owner_of"]


class Shares:
    """The owners, by name."""

    __slots__ = ("_counts", "_most", "_most_of_one", "total")

    def __init__(self, most: int, most_of_one: int | None = None) -> None:
        """`most_of_one` None: one may take all."""
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._counts: dict[str, int] = {}
        self.total = 0

    def of(self, owner: str) -> int:
        """How many places the owner has."""
        return self._counts.get(owner, 0)

    @property
    def is_full(self) -> bool:
        """True when nobody gets a place."""
        return self.total >= self._most

    def has_room(self, owner: str) -> bool:
        """May this owner take one more?"""
        return self.total < self._most and self._counts.get(owner, 0) < self._most_of_one

    def take(self, owner: str) -> None:
        """It takes one. Who may be refused looks before (`has_room`)."""
        self._counts[owner] = self._counts.get(owner, 0) + 1
        self.total += 1

    def give(self, owner: str) -> None:
        """It gives one back."""
        left = self._counts[owner] - 1
        if left:
            self._counts[owner] = left
        else:
            del self._counts[owner]
        self.total -= 1


def owner_of(asker: Asker) -> str:
    """Whom the asker's share of a limit belongs to: the user, on a server that knows users, else the host."""
    return asker.remote[0] if asker.user is None else f"user {asker.user.name}"
