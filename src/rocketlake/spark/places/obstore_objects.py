"""Buckets of S3, Google Cloud Storage and Azure, through obstore.

Owns        which of obstore's errors means what.
Must not know   the options of stores (settings.py), what an unanswered call means (stored.py).

obstore must not be used in a process that forks afterwards: the child would hang. So a store is made with its first
call, never at import, and is not pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.places.objects import Unanswered

__all__ = ["ObstoreObjects"]

_PART_BYTES = 8 << 20


class ObstoreObjects:
    """One bucket. `make` makes obstore's store; `options` are those for other libraries of the object_store crate."""

    def __init__(self, root: str, make: Callable[[], Any], options: Callable[[], dict[str, str]]) -> None:
        self.root = root
        self._make = make
        self._options = options

    @cached_property
    def _store(self) -> Any:
        try:
            return self._make()
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{self.root} needs the package '{error.name}'", hint="pip install 'rocketlake[lake]'"
            ) from error
        except UsageError:
            raise
        except Exception as error:  # obstore's own for an option that it cannot use
            raise UsageError(
                f"{self.root} cannot be opened: {error}", hint="correct its options (s3.*, adls.*)"
            ) from error

    def library_options(self) -> dict[str, str]:
        """From the same options."""
        return self._options()

    def create(self, key: str, data: bytes) -> bool:
        """`If-None-Match: *`."""
        from obstore.exceptions import AlreadyExistsError

        try:
            self._ask(key, lambda: self._store.put(key, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return False
        return True

    def put(self, key: str, data: bytes) -> None:
        """A plain put."""
        self._ask(key, lambda: self._store.put(key, data, use_multipart=False))

    def get(self, key: str) -> bytes | None:
        """The whole object."""
        try:
            return bytes(self._ask(key, lambda: self._store.get(key).bytes()))
        except FileNotFoundError:
            return None

    def head(self, key: str) -> tuple[int, int] | None:
        """Size and time."""
        try:
            found = self._ask(key, lambda: self._store.head(key))
        except FileNotFoundError:
            return None
        return int(found["size"]), int(found["last_modified"].timestamp() * 1000)

    def list(self, prefix: str, after: str = "") -> Iterator[str]:
        """In pages of a thousand."""
        for page in self._ask(prefix, lambda: list(self._store.list(prefix, offset=after or None, chunk_size=1000))):
            for found in page:
                yield found["path"]

    def delete(self, keys: Sequence[str]) -> None:
        """A call for a thousand keys."""
        try:
            self._ask(keys[0], lambda: self._store.delete(list(keys)))
        except FileNotFoundError:
            return

    def writer(self, key: str) -> _Sending:
        """One put, or a multipart upload."""
        import obstore

        return _Sending(
            self, key, self._ask(key, lambda: obstore.open_writer(self._store, key, buffer_size=_PART_BYTES))
        )

    def range(self, key: str, start: int, count: int) -> bytes:
        """A get with a range."""
        return bytes(self._ask(key, lambda: self._store.get_range(key, start=start, length=count)))

    def _ask(self, key: str, call: Callable[[], Any]) -> Any:
        from obstore import exceptions as theirs

        try:
            return call()
        except (FileNotFoundError, theirs.NotFoundError) as error:
            raise FileNotFoundError(f"{self.root}/{key}") from error
        except theirs.AlreadyExistsError:
            raise
        except (theirs.PermissionDeniedError, theirs.UnauthenticatedError) as error:
            raise StoreError(
                f"the store refuses these keys: {_first_line(error)}",
                path=f"{self.root}/{key}",
                hint="name keys that may read and write there (s3.access-key-id = env:NAME), or give the role rights",
            ) from error
        except (theirs.BaseError, OSError) as error:
            raise Unanswered(_first_line(error)) from error


class _Sending:
    """obstore sends nothing, or keeps the parts of an unfinished upload, until `close`."""

    def __init__(self, objects: ObstoreObjects, key: str, writer: Any) -> None:
        self._objects = objects
        self._key = key
        self._writer: Any = writer

    def write(self, data: memoryview) -> None:
        """Kept, or sent with what was kept."""
        self._objects._ask(self._key, lambda: self._writer.write(data))

    def close(self) -> None:
        """The object is there on return."""
        writer, self._writer = self._writer, None
        self._objects._ask(self._key, writer.close)

    def abort(self) -> None:
        """Nothing is there on return; parts of it stay if the store does not answer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._objects._ask(self._key, lambda: _leave(writer))


def _leave(writer: Any) -> None:
    # Its only way out without an object: as if a `with` of it had failed.
    writer.__exit__(Unanswered, Unanswered("the file is not wanted"), None)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:400]
