"""A folder of an object store.

Owns        the seam's calls as calls of a store that may lose answers: what to repeat, and what a lost answer means.
Must not know   which store it is (objects.py has the protocol, obstore_objects.py the real ones).

Put-if-absent is decided by reading back. A store may do a put and lose the answer; a library repeats the put then,
and is told that the object exists: our own. A 409 says that another put is under way, whether or not one is. So any
answer but "done" is followed by a read. Our bytes are there: done. Others are: another writer was first. None: again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import PurePath, PurePosixPath
from typing import Any

import pyarrow as pa

from rocketlake.base.errors import StoreError
from rocketlake.spark.places.objects import Objects, Sending, Unanswered
from rocketlake.spark.places.place import UnknownOutcome, Writing
from rocketlake.spark.places.settings import Settings

__all__ = ["StoredPlace"]

_TRIES = 4
_AT_ONCE = 16
_AHEAD_BYTES = 4 << 20


class StoredPlace:
    """The objects whose keys begin with the path."""

    def __init__(self, path: PurePath, objects: Objects, settings: Settings = ()) -> None:
        self.settings = settings
        self.path = PurePosixPath(path)
        self.files = None
        self._objects = objects

    def at(self, path: PurePath) -> StoredPlace:
        """Another folder of the bucket."""
        return StoredPlace(path, self._objects, self.settings)

    def url(self, path: PurePath | None = None) -> str:
        """`s3://bucket/key`."""
        return f"{self._objects.root}/{_key(path or self.path)}"

    def library_options(self) -> dict[str, str]:
        """In the words of the object_store crate, on which deltalake stands, too."""
        return self._objects.library_options()

    def put_if_absent(self, path: PurePath, data: bytes) -> bool:
        """Decided by reading back."""
        key = _key(path)
        last: Exception | None = None
        for _ in range(_TRIES):
            try:
                if self._objects.create(key, data):
                    return True
            except Unanswered as error:
                last = error
            try:
                there = self._objects.get(key)
            except Unanswered as error:
                last = error
                continue
            if there is not None:
                return there == data
        raise self._silent(path, UnknownOutcome, "it may have made the object, or make it late", last)

    def put(self, path: PurePath, data: bytes, *, hint: bool = False) -> None:
        """Repeated until the store says that it is done: a put of the same bytes may be done twice."""
        self._repeated(path, lambda: self._objects.put(_key(path), data))

    def get(self, path: PurePath) -> bytes | None:
        """The content."""
        found: bytes | None = self._repeated(path, lambda: self._objects.get(_key(path)))
        return found

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """Many at once: each asks the store."""
        return [found[0] if found else None for found in self._heads(paths)]

    def modified_ms(self, path: PurePath) -> int | None:
        """By the clock of the store."""
        (found,) = self._heads([path])
        return found[1] if found else None

    def _heads(self, paths: Sequence[PurePath]) -> list[tuple[int, int] | None]:
        def head(path: PurePath) -> tuple[int, int] | None:
            found: tuple[int, int] | None = self._repeated(path, lambda: self._objects.head(_key(path)))
            return found

        if len(paths) < 2:
            return [head(path) for path in paths]
        with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
            return list(pool.map(head, paths))

    def make_folder(self, folder: PurePath) -> None:
        """A key needs none."""

    def names(self, folder: PurePath, after: str = "") -> list[str]:
        """Of the objects right in the folder."""
        at = _key(folder) + "/"
        keys = self._repeated(folder, lambda: list(self._objects.list(at, at + after)))
        rest = (key[len(at) :] for key in keys)
        return sorted(name for name in rest if "/" not in name)

    def walk(self, ending: str) -> list[PurePath]:
        """All objects below."""
        keys = self._repeated(self.path, lambda: list(self._objects.list(_key(self.path) + "/")))
        return [PurePosixPath("/" + key) for key in keys if key.endswith(ending)]

    def delete(self, paths: Iterable[PurePath]) -> None:
        """All in one call, or a few."""
        keys = [_key(path) for path in paths]
        if keys:
            self._repeated(self.path, lambda: self._objects.delete(keys))

    def writer(self, path: PurePath) -> Writing:
        """Nothing is seen of it before its end; an exception, or the end of the process, leaves nothing."""
        return _StoredWriting(self._repeated(path, lambda: self._objects.writer(_key(path))), self.url(path))

    def source(self, path: PurePath) -> Any:
        """A file object that asks the store for ranges, each as often as for anything else."""
        key = _key(path)
        (size,) = self.sizes([path])
        if size is None:
            raise FileNotFoundError(self.url(path))

        def ask(start: int, count: int) -> bytes:
            found: bytes = self._repeated(path, lambda: self._objects.range(key, start, count))
            return found

        return pa.PythonFile(_Source(size, ask), mode="r")

    def keep_names(self, folders: Iterable[PurePath]) -> None:
        """A finished object has its name."""

    def _repeated(self, path: PurePath, ask: Any) -> Any:
        last: Exception | None = None
        for _ in range(_TRIES):
            try:
                return ask()
            except Unanswered as error:
                last = error
        raise self._silent(path, StoreError, "", last)

    def _silent(self, path: PurePath, kind: type[StoreError], more: str, last: Exception | None) -> StoreError:
        return kind(
            f"the store did not answer {_TRIES} times" + (f", {more}" if more else "") + (f": {last}" if last else ""),
            path=self.url(path),
            hint="look at the store and at the way to it (s3.endpoint, s3.region, s3.request-timeout), then start the"
            " query again: it goes on where it was",
        )


class _StoredWriting:
    def __init__(self, sending: Sending, url: str) -> None:
        self._sending = sending
        self._url = url
        self.sink = pa.PythonFile(_Sink(self), mode="w")

    def write(self, data: memoryview) -> None:
        self._taken(lambda: self._sending.write(data))

    def close(self) -> None:
        """Not repeated: the task is, and writes a file of another name."""
        self._taken(self._sending.close)

    def _taken(self, ask: Callable[[], None]) -> None:
        try:
            ask()
        except Unanswered as error:
            raise StoreError(
                f"the store did not take a data file: {error}",
                path=self._url,
                hint="look at the store if this stays; nothing is lost, Spark runs the task again",
            ) from error

    def abort(self) -> None:
        """Nothing is seen. A store that does not answer keeps the parts, for a lifecycle rule of the bucket."""
        with suppress(Unanswered):
            self._sending.abort()


class _Sink(io.RawIOBase):
    def __init__(self, writing: _StoredWriting) -> None:
        self._writing = writing

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        plain = memoryview(data).cast("B")  # pyarrow's buffers are of signed bytes, which obstore refuses
        self._writing.write(plain)
        return len(plain)


class _Source(io.RawIOBase):
    """Reads ahead: pyarrow asks for the end of a file, then for each column."""

    def __init__(self, size: int, ask: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._ask = ask
        self._at = 0
        self._ahead = memoryview(b"")
        self._ahead_at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int | None = -1) -> Any:
        end = self._size if count is None or count < 0 else min(self._at + count, self._size)
        start, first = self._at, self._ahead_at
        if start >= end:
            return b""
        if not first <= start <= end <= first + len(self._ahead):
            # A small file comes as a whole with its end, which pyarrow reads first.
            first = start if self._size > _AHEAD_BYTES else 0
            count = max(end, min(first + _AHEAD_BYTES, self._size)) - first
            self._ahead_at, self._ahead = first, memoryview(self._ask(first, count))
        self._at = end
        return self._ahead[start - first : end - first]


def _key(path: PurePath) -> str:
    return str(path).strip("/")
