"""Write buffers in front of the commit log files (`transientStorePoolEnable`).

Owns        a fixed number of buffers outside the Python heap, each as long as a commit log file.
Must not know   which bytes are written into them.
"""

from __future__ import annotations

import mmap

__all__ = ["WritePool"]


class WritePool:
    """Lends buffers; an anonymous mapping each, so pages cost memory only once they are written to."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._free = [memoryview(mmap.mmap(-1, size)) for _ in range(count)]

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
