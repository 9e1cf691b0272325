"""One service for a folder of checkpoints: two would take each other's turns.

Owns        the lock in that folder.
Must not know   checkpoints.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketlake.base.errors import ConflictError, StoreError
from rocketlake.spark.option_values import scheme_of

__all__ = ["only_service"]


@contextmanager
def only_service(checkpoint: str) -> Iterator[None]:
    """ConflictError if another service of this machine has the folder. A url is not locked."""
    if scheme_of(checkpoint):
        yield
        return
    folder = Path(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        hint = "give a folder with --checkpoint that you may write to"
        raise StoreError(f"checkpoints cannot be kept: {error.strerror}", path=checkpoint, hint=hint) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "stop the other one, or give a folder of its own with --checkpoint, and another --to"
            raise ConflictError("another `lake serve` has these checkpoints", where=checkpoint, hint=hint) from None
        yield
