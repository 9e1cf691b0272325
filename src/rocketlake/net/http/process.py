"""Figures of this process and its event loop.

Owns        which figures, how the loop's delay is measured.
Must not know   what the process serves.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.figures.histogram import Histogram
from rocketlake.base.service import Service
from rocketlake.net.http.exposition import Family, labels_text, number

__all__ = ["LoopDelay", "process_families"]

_LOOK_SECONDS: Final = 0.1
_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_PAGE_BYTES: Final = resource.getpagesize()


class LoopDelay(Service):
    """Sleeps for a moment again and again, and counts by how much it woke too late."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("loop-delay", clock)
        self.delays = Histogram(_BOUNDS)
        self._due = 0.0

    async def start(self) -> None:
        """Begin."""
        await super().start()
        self._due = self._clock.monotonic() + _LOOK_SECONDS
        self.every("look", _LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        self.delays.note(max(0.0, now - self._due))
        self._due = now + _LOOK_SECONDS


def process_families(started_ms: int, delay: LoopDelay, version: str) -> Iterator[Family]:
    """The families of a process that began at `started_ms`."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    build = labels_text({"version": version, "python": python})
    yield Family("rocketlake_build_info", "gauge", "The build that runs; always 1", [(build, 1)])
    yield number("rocketlake_up_since", "When this server began, seconds since 1970", started_ms / 1000, "seconds")
    yield Family(
        "rocketlake_loop_lag", "histogram", "By how much the event loop was late", [("", delay.delays)], "seconds"
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    yield number("rocketlake_process_cpu_seconds_total", "CPU time of the process", cpu, kind="counter")
    yield number("rocketlake_process_resident_memory", "Memory in use", _resident_bytes(), "bytes")
    yield number("rocketlake_process_open_fds", "Open files and sockets", len(os.listdir("/proc/self/fd")))
    yield number("rocketlake_process_max_fds", "How many there may be", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield number("rocketlake_process_threads", "Threads", threading.active_count())
    collected = sum(generation["collections"] for generation in gc.get_stats())
    yield number("rocketlake_process_collections_total", "Runs of Python's collector", collected, kind="counter")


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as figures:
        return int(figures.read().split()[1]) * _PAGE_BYTES
