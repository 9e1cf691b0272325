"""Write buffers in front of the commit log files (`transientStorePoolEnable`).

Owns        a fixed number of buffers outside the Python heap, each as long as a commit log file; their lock in memory.
Must not know   which bytes are written into them.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource

from rocketlake.base.disk.page_cache import keep_in_memory

__all__ = ["WritePool"]


class WritePool:
    """Lends buffers; an anonymous mapping each, so pages cost memory only once they are written to."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._mappings = [mmap.mmap(-1, size) for _ in range(count)]
        self._free = [memoryview(mapping) for mapping in self._mappings]

    def lock(self) -> str:
        """Keep the buffers, and the messages in them, out of the swap. Returns why not, with the cure, or ""."""
        failure = next(filter(None, map(keep_in_memory, self._mappings)), 0)
        if not failure:
            return ""
        text = f"the write buffers can be swapped out, they are not locked in memory: {os.strerror(failure)}"
        if failure not in (errno.ENOMEM, errno.EPERM, errno.EAGAIN):
            return f"{text}. Cure: turn swap off, this machine cannot lock pages at their first use"
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        return (
            f"{text} (RLIMIT_MEMLOCK is {limit} bytes). Cure: let the process lock {self.count * self.size} bytes"
            " (`ulimit -l`, LimitMEMLOCK= of a systemd unit), lower transientStorePoolSize, or turn swap off"
        )

    @property
    def free(self) -> int:
        """Buffers that can be borrowed now."""
        return len(self._free)

    def borrow(self) -> memoryview:
        """A buffer with old content in it; only while some are `free`."""
        return self._free.pop()

    def give_back(self, buffer: memoryview) -> None:
        """Return a borrowed buffer; the most recently used one is lent first, its pages are still in memory."""
        self._free.append(buffer)
