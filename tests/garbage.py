"""Frees what tests leave behind, by the memory that it takes.

Python's collector counts objects: a quarter as many new ones as there are old ones start a full collection. A broker in
memory is few objects, in cycles, with a hundred megabytes of files. In a process that had played much before, they
came to 19 GB, and the kernel killed it.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

_STATM = Path("/proc/self/statm")
_GROWTH_BYTES = 512 << 20
_after_last = 0
"""Bytes that the process had behind the last collection here."""


def collect_if_grown() -> None:
    """Run the collector, if the process has grown by half a gigabyte since it last did so here. Linux only."""
    global _after_last
    if _resident() > _after_last + _GROWTH_BYTES:
        gc.collect()
        _after_last = _resident()


def _resident() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else 0
