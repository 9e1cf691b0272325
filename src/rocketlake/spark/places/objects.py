"""The few calls that an object store answers, each of which it may leave unanswered.

Owns        the protocol, and the one exception for an answer that did not come or said nothing.
Must not know   what to do then (stored.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rocketlake.spark.places.place import Writing

__all__ = ["Objects", "Unanswered"]


class Unanswered(Exception):
    """No answer, or one that says nothing about the outcome (a server's error, a time-out)."""


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

    def list(self, prefix: str) -> Iterable[str]:
        """All keys that begin so."""

    def delete(self, keys: Sequence[str]) -> None:
        """Missing ones do not count."""

    def writer(self, key: str) -> Writing:
        """A large object, in parts."""

    def reader(self, key: str) -> Any:
        """A file object for pyarrow. FileNotFoundError if missing."""
