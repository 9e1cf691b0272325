"""The few calls that an object store answers, each of which it may leave unanswered.

Owns        the protocol, and the one exception for an answer that did not come or said nothing.
Must not know   what to do then (stored.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["Objects", "Sending", "Unanswered"]


class Unanswered(Exception):
    """No answer, or one that says nothing about the outcome (a server's error, a time-out)."""


class Sending(Protocol):
    """An object on its way. Nobody sees it before `close`."""

    def write(self, data: memoryview) -> None:
        """The next bytes."""

    def close(self) -> None:
        """The object is there on return."""

    def abort(self) -> None:
        """Nothing is there on return; after `close` it does nothing."""


class Objects(Protocol):
    """One bucket. Keys have no slash in front. Errors but Unanswered are StoreError: asking again is of no use."""

    root: str
    """`s3://bucket`"""

    def library_options(self) -> dict[str, str]:
        """For libraries that open the bucket themselves."""

    def create(self, key: str, data: bytes) -> bool:
        """Make the object; False if the store says that it is there, which may be our own."""

    def put(self, key: str, data: bytes) -> None:
        """Make or replace."""

    def get(self, key: str) -> bytes | None:
        """The content, None if missing."""

    def head(self, key: str) -> tuple[int, int] | None:
        """Bytes, and epoch milliseconds of the last change; None if missing."""

    def list(self, prefix: str, after: str = "") -> Iterable[str]:
        """All keys that begin so and come behind `after`."""

    def delete(self, keys: Sequence[str]) -> None:
        """Missing ones do not count."""

    def writer(self, key: str) -> Sending:
        """A large object, in parts."""

    def range(self, key: str, start: int, count: int) -> bytes:
        """Bytes of an object, from `start` on. FileNotFoundError if missing."""
