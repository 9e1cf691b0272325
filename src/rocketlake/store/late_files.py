"""Files of a store that a worker makes or opens, so that the loop never waits for them.

Owns        which files are asked for, which are ready, why one could not be made; when the loop may wait itself.
Must not know   what the files hold, where they lie.

While the store serves, a part that needs a file which is not open asks for it and gets `FileLate`: it keeps its bytes
in memory and asks again. Before and after that (recovery, stop) the file is made at once, on the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rocketlake.base.callbacks import call_each
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.worker import Worker

__all__ = ["READY_MAX", "FileLate", "LateFiles", "NotSynced"]

_log = get_logger(__name__)


READY_MAX = 128
"""Files that stay open until they are taken."""


class FileLate(StoreError):
    """A worker makes or opens this file now; the same call works when it is ready."""


class NotSynced(FileLate):
    """No new file before older ones are synced; the same call works when they are."""


class Held(Protocol):
    """A result that is closed if no part of the store takes it."""

    def close(self) -> object: ...


F = TypeVar("F", bound=Held)


@dataclass(slots=True, eq=False)
class _Asked:
    """One file that was asked for."""

    make: Callable[[], Held]
    is_written: bool
    """Messages wait for this file: while it cannot be had, the store takes no more."""
    file: Held | None = None
    error: Exception | None = None
    is_done: bool = False
    is_forgotten: bool = False

    def run(self) -> Held | None:
        """On the worker. A file that nobody wants any more is not made: it could lie behind a gap of its queue."""
        return None if self.is_forgotten else self.make()


class LateFiles:
    """The files that one store waits for."""

    def __init__(self, worker: Worker | None = None) -> None:
        """Without `worker` every file is made at once, for ever."""
        self.on_ready: list[Callable[[], object]] = []
        """Called on the loop when a file is ready, or could not be made."""
        self.is_serving = False
        """True while the loop must not wait for a file."""
        self.error = ""
        """Why a file that is to be written could not be made or opened; "" while all could. Looked at for each put."""
        self._worker = worker
        self._is_asking = True
        self._asked: dict[Path, _Asked] = {}
        self._failed: dict[Path, None] = {}
        """Of these, the files that could not be made."""
        self._ready: dict[Path, None] = {}
        """Of these, the files that nobody has taken yet; the oldest comes first."""
        self._waiting: list[tuple[set[Path], Callable[[], object]]] = []
        self._together: list[tuple[Path, _Asked]] | None = None
        """Files asked for in a `together` block, not given to the worker yet."""
        self._warnings = RareWarnings(_log)

    def serve(self) -> None:
        """From now on files are made by the worker."""
        self.is_serving = self._worker is not None

    def ask_no_more(self) -> None:
        """The worker is about to be closed: it ends what it has begun, and every other file stays late until `end`."""
        self._is_asking = False
        self.forget([path for path, asked in self._asked.items() if not asked.is_done])

    def end(self) -> None:
        """From now on the caller makes files itself. Files that nobody took are closed."""
        self.is_serving = False
        self.forget(list(self._asked))

    @contextmanager
    def made_here(self) -> Iterator[None]:
        """In this block the caller makes and opens files itself, and waits for them: the log is cut."""
        before = self.is_serving
        self.end()
        try:
            yield
        finally:
            self.is_serving = before

    def take(self, path: Path, make: Callable[[], F], *, is_written: bool = True) -> F:
        """The file at `path`, as `make` gives it. `is_written`: it is to be written, not only read.

        While serving `make` runs on the worker. Raises FileLate until it has run, and what it raised: OSError,
        StoreError; then it is tried again.
        """
        if not self.is_serving:
            return make()
        asked = self.ask(path, make, is_written=is_written)
        if not asked.is_done:
            raise FileLate("the file is being made or opened", path=str(path))
        del self._asked[path]
        self._ready.pop(path, None)
        if asked.error is not None:
            self.ask(path, make, is_written=asked.is_written)
            raise asked.error
        return asked.file  # type: ignore[return-value]

    def ask(self, path: Path, make: Callable[[], Held], *, is_written: bool = True) -> _Asked:
        """Have the worker make this file, unless it was asked for already. Only while serving."""
        asked = self._asked.get(path)
        if asked is None:
            asked = self._asked[path] = _Asked(make, is_written)
            self._submit(path, asked)
        elif is_written and not asked.is_written:
            asked.is_written = True
            self._note_error()
        return asked

    def retry(self) -> None:
        """Try again what could not be made."""
        for path, asked in list(self._asked.items()):
            if asked.error is not None and asked.is_done:
                asked.is_done = False
                self._submit(path, asked)

    def is_asked(self, path: Path) -> bool:
        """True while this file is being made, or is ready and was not taken yet."""
        return path in self._asked

    def when_ready(self, paths: Iterable[Path], done: Callable[[], object]) -> None:
        """Call `done` when none of these files is being made any more, perhaps now."""
        left = {path for path in paths if path in self._asked and not self._asked[path].is_done}
        if left:
            self._waiting.append((left, done))
        else:
            done()

    def forget(self, paths: Iterable[Path]) -> None:
        """Nobody wants these files any more: what is ready is closed, what is being made will be."""
        for path in paths:
            asked = self._asked.pop(path, None)
            self._ready.pop(path, None)
            if asked is not None:
                asked.is_forgotten = True
                if asked.file is not None:
                    asked.file.close()
        self._note_error()

    def forget_below(self, folder: Path) -> None:
        """The same for all files below a folder."""
        self.forget([path for path in self._asked if folder in path.parents])

    def unused(self) -> list[Path]:
        """Files that are ready, and were not taken."""
        return list(self._ready)

    def _note_error(self) -> None:
        """Only a file that messages wait for counts: one that cannot be read is an error of that read alone."""
        self.error = ""
        for path in list(self._failed):
            asked = self._asked.get(path)
            if asked is None or asked.error is None:
                del self._failed[path]
            elif asked.is_written:
                self.error = str(asked.error)
                return

    @contextmanager
    def together(self) -> Iterator[None]:
        """Files that are asked for in this block are one call of the worker: each trip to it costs the loop some."""
        together: list[tuple[Path, _Asked]] = []
        self._together = together
        try:
            yield
        finally:
            self._together = None
            if together:
                self._submit_all(together)

    def _submit(self, path: Path, asked: _Asked) -> None:
        if not self._is_asking:
            return
        if self._together is None:
            self._submit_all([(path, asked)])
        else:
            self._together.append((path, asked))

    def _submit_all(self, jobs: list[tuple[Path, _Asked]]) -> None:
        assert self._worker is not None, "asked only while serving"

        def made(outcomes: list[tuple[Held | None, Exception | None]] | None, error: Exception | None) -> None:
            for number, (path, asked) in enumerate(jobs):
                self._made(path, asked, *(outcomes[number] if outcomes is not None else (None, error)))
            call_each(self.on_ready)

        self._worker.submit(lambda: [_outcome(asked) for _path, asked in jobs], made)

    def _made(self, path: Path, asked: _Asked, file: Held | None, error: Exception | None) -> None:
        asked.is_done, asked.file, asked.error = True, file, error
        if error is not None:
            self._warnings.warn("made", "a file of the store cannot be made or opened, it is tried again: %s", error)
        if self._asked.get(path) is not asked and file is not None:
            file.close()  # its queue was deleted meanwhile
        elif file is not None:
            self._keep_ready(path)
        if error is not None:
            self._failed[path] = None
        if self._failed:
            self._note_error()
        waiting, self._waiting = self._waiting, []
        ready = []
        for left, done in waiting:
            left.discard(path)
            if left:
                self._waiting.append((left, done))
            else:
                ready.append(done)
        call_each(ready)

    def _keep_ready(self, path: Path) -> None:
        """A queue with few messages takes its file late: not all of these files may stay open until then."""
        self._ready[path] = None
        if len(self._ready) > READY_MAX:
            oldest = next(iter(self._ready))
            del self._ready[oldest]
            file = self._asked.pop(oldest).file
            if file is not None:
                file.close()  # it is asked for again


def _outcome(asked: _Asked) -> tuple[Held | None, Exception | None]:
    try:
        return asked.run(), None
    except Exception as error:  # told to the part that asked for the file
        return None, error
