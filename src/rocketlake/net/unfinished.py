"""Received bytes of frames that are not complete yet: one budget for all links.

Owns        the count of these bytes, and the choice of the link that is closed when there are too many.
Must not know   frames, sockets.

A frame is kept until it is whole: without a common bound ten thousand links with 15 MiB each fill any memory. Above the
budget the host with the most bytes loses its largest link: a host with a thousand begun frames must not cost other
hosts their large messages.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Unfinished", "UnfinishedBytes"]


class Unfinished(Protocol):
    """A link that may have an incomplete frame."""

    remote: tuple[str, int]

    def abort(self, kind: str, why: str) -> None:
        """Close at once; the log gives the reason `why`."""


class UnfinishedBytes:
    """The budget, and the links that use it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[Unfinished, int] = {}
        self.total = 0

    def note(self, link: Unfinished, size: int) -> None:
        """The link keeps `size` bytes of an incomplete frame now; 0 when the frame is whole or the link is gone."""
        self.total += size - self._sizes.pop(link, 0)
        if size:
            self._sizes[link] = size
        while self.total > self._bytes_max:
            hosts: dict[str, int] = {}
            for known, kept in self._sizes.items():
                hosts[known.remote[0]] = hosts.get(known.remote[0], 0) + kept
            host = max(hosts, key=hosts.__getitem__)
            largest = max((link for link in self._sizes if link.remote[0] == host), key=self._sizes.__getitem__)
            why = (
                f"the unfinished requests of all links hold {self.total} bytes, {self._bytes_max} are allowed"
                f" (unfinishedBytesMax); {host} has the most with {hosts[host]}, and this is its largest with"
                f" {self._sizes[largest]}"
            )
            self.total -= self._sizes.pop(largest)
            largest.abort("unfinished", why)
