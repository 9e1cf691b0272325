"""Who is told of which changes of a register in this process.

Owns        the callbacks, their prefixes.
Must not know   the keys' values, how changes come about.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from rocketlake.base.callbacks import call
from rocketlake.controller.registers.register import Changed

__all__ = ["Watches"]


class Watches:
    """The watches of one register."""

    def __init__(self) -> None:
        self._watches: dict[object, tuple[str, Changed]] = {}

    def add(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """Tell `changed` of keys that start with `prefix`; returns the function that ends this."""
        watch = object()
        self._watches[watch] = (prefix, changed)
        return lambda: self._watches.pop(watch, None)

    def tell(self, keys: Set[str]) -> None:
        """These keys changed; no key at all: any may have changed."""
        for prefix, changed in tuple(self._watches.values()):
            seen = {key for key in keys if key.startswith(prefix)}
            if seen or not keys:
                call(changed, seen)
