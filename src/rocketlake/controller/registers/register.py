"""The interface of a register: values that change by compare-and-set only.

Owns        the methods, and the promises of their results.
Must not know   the homes of the values, what the values mean.

A register is the one place where controllers agree. A change is decided by the swap that wins: reads and watches may be
late, and nothing may be decided on them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rocketlake.base.errors import LinkError

__all__ = ["ABSENT", "Changed", "Conflict", "OutcomeUnknown", "Register", "Swap", "Swapped", "Versioned"]

ABSENT = 0
"""The revision of a key that is not there."""

Versioned: TypeAlias = tuple[bytes, int]
"""A value and its revision: a number above 0 that grows with each change of the key."""

Changed: TypeAlias = Callable[[Set[str]], object]
"""Called with the keys that changed; with no key at all when any may have changed."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """The swap was made: the key and the keys beside it have their new values."""

    revision: int
    """The key's revision from now on."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key had another revision: nothing was changed. These are the key's value and revision at that moment."""

    value: bytes | None
    """None: the key is not there."""
    revision: int


Swap: TypeAlias = Swapped | Conflict


class OutcomeUnknown(LinkError):
    """No answer to a swap: it may have been made, it may be made later, it may be lost. Only a read can tell."""


class Register(Protocol):
    """Keys are text, values bytes. All methods raise LinkError when the register cannot be reached."""

    async def read(self, prefix: str) -> dict[str, Versioned]:
        """The keys that start with `prefix`, with values and revisions. It may be older than another caller's swap."""
        ...

    async def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        """Set `key` to `value` if it still has `revision` (ABSENT: if it is not there), all or nothing.

        `also`: keys that get their values with it, whatever their revisions; None removes one. OutcomeUnknown if it
        cannot be known whether the swap was made; any other LinkError says that it was not, and never will be.
        """
        ...

    def watch(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """Call `changed` after keys that start with `prefix` change, until the function returned is called.

        Calls may come late, together or never: a caller reads everything again from time to time.
        """
        ...
