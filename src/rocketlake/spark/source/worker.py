"""What a Spark worker does once, before its first read.

Owns        keeping what was there before the first task out of the collector's way.
Must not know   tasks, rows.

Spark's worker collects garbage after each task (pyspark/daemon.py), and looks at every object for that: Spark's,
pyarrow's and ours, some hundred thousand that live as long as the worker. Frozen ones are not looked at again.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

__all__ = ["freeze_once"]

_is_frozen = False


def freeze_once() -> None:
    """Nothing outside of a Spark task, and from the second time on."""
    global _is_frozen
    if not _is_frozen and TaskContext.get() is not None:
        _is_frozen = True
        gc.freeze()
