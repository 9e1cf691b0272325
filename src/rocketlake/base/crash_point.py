"""Places where a test may kill this process: named in the code, switched on by the environment, else without effect.

Owns        ROCKETLAKE_CRASH and its companions; dying by SIGKILL as kill -9 does it.
Must not know   the work around a point.

    ROCKETLAKE_CRASH=lake.before_commit@3    the process dies at its third pass of this point (1 if not said)
    ROCKETLAKE_CRASH=@/tmp/crash             the same, read from this file at each pass: for processes that live long
    ROCKETLAKE_CRASH_COUNT=/tmp/passes       passes are counted in this file over all processes: one of them dies
    ROCKETLAKE_CRASH_PIDS=/tmp/pids          processes (one number a line) that are killed just before, such as a JVM
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["crash_point", "struck_by"]

_passes = 0
_strike: Callable[[str], None] | None = None


def crash_point(name: str) -> None:
    """Kill this process here if the environment says so."""
    if _strike is not None:
        _strike(name)
    wanted = os.environ.get("ROCKETLAKE_CRASH")
    if not wanted:
        return
    if wanted.startswith("@"):
        wanted = Path(wanted[1:]).read_text()
    point, _, number = wanted.partition("@")
    if point == name and _pass() == int(number or 1):
        _die()


@contextmanager
def struck_by(strike: Callable[[str], None]) -> Iterator[None]:
    """For tests in one process: `strike` is called with the name of each point that is passed, and may raise."""
    global _strike
    _strike = strike
    try:
        yield
    finally:
        _strike = None


def _pass() -> int:
    global _passes
    shared = os.environ.get("ROCKETLAKE_CRASH_COUNT")
    if not shared:
        _passes += 1
        return _passes
    descriptor = os.open(shared, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, b".")
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def _die() -> None:
    listed = os.environ.get("ROCKETLAKE_CRASH_PIDS")
    for line in Path(listed).read_text().split() if listed else ():
        try:
            os.kill(int(line), signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.kill(os.getpid(), signal.SIGKILL)
