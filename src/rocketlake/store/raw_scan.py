"""Bytes of another store's log -> runs of records that are dispatched together.

Owns        the choice between the kernel and dispatch_scan.py.
Must not know   files, who sent the bytes, what is done with the records.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketlake.base.pure_import import has_kernel
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.entry_run import EntryRun

if TYPE_CHECKING:
    from typing import TypeAlias

    from rocketlake.store import raw_run

    RawRecords: TypeAlias = EntryRun | raw_run.RawRun

__all__ = ["scan_raw"]

_KERNEL = "rocketlake.store.raw_run"
_kernel = importlib.import_module(_KERNEL) if has_kernel(_KERNEL) else None


def scan_raw(
    data: memoryview, base_offset: PhysicalOffset, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[list[RawRecords], int, int]:
    """The records from the start of `data`, which lies at physical offset `base_offset`.

    Returns (runs in the order of the log, bytes taken, status of dispatch_scan.scan).
    """
    runs: list[RawRecords] = []
    if _kernel is None:
        entries, taken, status = scan(data, base_offset, check_crc, delays_ms)
        return [EntryRun(entries)] if entries else runs, taken, status
    taken = 0
    while True:
        run, size, status = _kernel.scan_run(data[taken:], base_offset + taken, check_crc, delays_ms)
        if size:
            runs.append(run)
            taken += size
        if status != _kernel.OTHER:
            return runs, taken, status
        size = int.from_bytes(data[taken : taken + 4], "big")
        entries, size, status = scan(data[taken : taken + size], base_offset + taken, check_crc, delays_ms)
        if not entries:
            return runs, taken, status
        runs.append(EntryRun(entries))
        taken += size
