"""Requests that are held until one outcome is known, such as a save of a table.

Owns        the held requests of each key, in the order they came.
Must not know   what the outcome is, how it is brought about, how a request is served.

Rule: the holder of a `HeldRequests` settles each key that it holds requests of, in good and in bad outcomes. So held
requests have no deadline here.
A request that waits for an outcome of its own is its own key.
Invariant: a request that raises keeps no other from its answer.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from rocketlake.base.callbacks import call
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Handler, Request

__all__ = ["HeldRequests"]

_K = TypeVar("_K")


class HeldRequests(Generic[_K]):
    """Requests by the key of what they wait for."""

    def __init__(self) -> None:
        self.by_key: dict[_K, list[tuple[Request, Handler]]] = {}
        """Changed here only. A hot path looks whether it is empty: that takes no call."""
        self._count = 0

    def __len__(self) -> int:
        """Requests that are held."""
        return self._count

    def __contains__(self, key: _K) -> bool:
        """Does a request wait for this key?"""
        return key in self.by_key

    @property
    def first(self) -> _K | None:
        """The key that has been waited for longest; None if no request is held."""
        return next(iter(self.by_key), None)

    def hold(self, key: _K, request: Request, serve: Handler) -> bool:
        """Keep a request, which `serve` will serve; True if it is the first one that waits for this key."""
        held = self.by_key.setdefault(key, [])
        held.append((request, serve))
        self._count += 1
        return len(held) == 1

    def settle(self, key: _K, instead: Handler | None = None) -> None:
        """Serve the requests that wait for this key: each by its own handler, or all by `instead`."""
        settled = self.by_key.pop(key, [])
        self._count -= len(settled)
        for request, serve in settled:
            reply = run_handler(instead or serve, request)
            if reply is not HELD:
                call(request.answer, reply)

    def settle_all(self, instead: Handler) -> None:
        """Serve all held requests by `instead`: what they wait for does not matter any more."""
        for key in list(self.by_key):
            self.settle(key, instead)
