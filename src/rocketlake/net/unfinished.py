"""Received bytes of frames that are not complete yet: one budget for all links.

Owns        how many there are, and which link is closed when there are too many.
Must not know   frames, sockets.

A frame is kept until it is whole: without a common bound ten thousand links with 15 MiB each fill any memory.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Unfinished", "UnfinishedBytes"]


class Unfinished(Protocol):
    """A link that may have an incomplete frame."""

    def abort(self, kind: str, why: str) -> None:
        """Close at once and say why."""


class UnfinishedBytes:
    """The budget."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[Unfinished, int] = {}
        self.total = 0

    def note(self, link: Unfinished, size: int) -> None:
        """The link holds so many bytes of an incomplete frame now, 0 when it is complete or the link is gone."""
        self.total += size - self._sizes.pop(link, 0)
        if size:
            self._sizes[link] = size
        while self.total > self._bytes_max:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            kept = self._sizes[largest]
            why = (
                f"the unfinished requests of all links hold {self.total} bytes, {self._bytes_max} are allowed"
                f" (unfinishedBytesMax), and this one is the largest with {kept}"
            )
            self.total -= self._sizes.pop(largest)
            largest.abort("unfinished", why)
