"""Errors after which nobody knows whether a change was made: let a few pass, so that the caller looks at the table.

Owns        how many pass, the error when they do not end.
Must not know   formats: which errors say nothing is theirs to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rocketlake.base.errors import RocketLakeError, StoreError
from rocketlake.spark.places.place import UnknownOutcome

__all__ = ["Silence", "asked"]

Answer = TypeVar("Answer")
Kinds = tuple[type[BaseException], ...]

_TRIES = 4


class Silence:
    """`with silence:` around each try of one change. `kinds`: errors that say nothing; none on a disk."""

    def __init__(self, url: str, kinds: Kinds) -> None:
        self._url = url
        self._kinds = kinds
        self._left = _TRIES

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or isinstance(error, RocketLakeError) or not isinstance(error, self._kinds):
            return False
        self._left -= 1
        if not self._left:
            raise _silent(UnknownOutcome, self._url, error) from error
        return True


def asked(url: str, kinds: Kinds, ask: Callable[[], Answer]) -> Answer:
    """The answer to a question, or to a change that may be made twice, asked again a few times."""
    for left in reversed(range(_TRIES)):
        try:
            return ask()
        except RocketLakeError:
            raise
        except kinds as error:
            if not left:
                raise _silent(StoreError, url, error) from error
    raise AssertionError


def _silent(kind: type[StoreError], url: str, error: BaseException) -> StoreError:
    said = (str(error).splitlines() or [""])[0][:400]
    return kind(
        f"the store or its catalog did not answer: {type(error).__name__}: {said}",
        path=url,
        hint="look at the store and at the way to it (s3.endpoint, s3.region, s3.request-timeout), then start the"
        " query again: it goes on where it was",
    )
