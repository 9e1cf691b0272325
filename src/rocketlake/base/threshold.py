"""Wait until a number is reached: flushed up to x, replicated up to x, queue has offset x.

Owns        the sorted wait list, deadlines.
Must not know   what the number means, what the waiters do.

Invariant: a waiter is called exactly once: with True when the value reached its target, else with False.
Invariant: waiters run in the order of their targets; equal targets in the order they came.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from rocketlake.base.callbacks import call

__all__ = ["Threshold", "Waiter"]

Waiter = Callable[[bool], None]


class _Entry:
    """One waiter; `waiter` is None once it has been called (then the other heap skips it)."""

    __slots__ = ("waiter",)

    def __init__(self, waiter: Waiter) -> None:
        self.waiter: Waiter | None = waiter


class Threshold:
    """A number that grows, and the waiters for its values. Insert is O(log n), release O(log n) per waiter."""

    __slots__ = ("_by_deadline", "_by_target", "_order", "_waiting", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._order = itertools.count()
        self._by_target: list[tuple[int, int, _Entry]] = []
        self._by_deadline: list[tuple[float, int, _Entry]] = []
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def next_deadline(self) -> float:
        """The earliest deadline of a waiter (monotonic seconds), infinity without waiters."""
        heap = self._by_deadline
        while heap and heap[0][2].waiter is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else float("inf")

    def wait(self, target: int, waiter: Waiter, deadline: float) -> None:
        """Call `waiter(True)` when the value is `target` or more (now, if it is), `waiter(False)` after `deadline`."""
        if self.value >= target:
            call(waiter, True)
            return
        entry = _Entry(waiter)
        number = next(self._order)
        self._waiting += 1
        heapq.heappush(self._by_target, (target, number, entry))
        heapq.heappush(self._by_deadline, (deadline, number, entry))

    def advance(self, value: int) -> None:
        """The number is now `value` (a lower one than before is ignored); runs the waiters it reaches."""
        if value > self.value:
            self.value = value
            self.release()

    def release(self) -> None:
        """Runs the waiters whose target the value has reached; called by an owner that sets the value itself."""
        heap = self._by_target
        # A waiter may wait again or advance further: look at the heap and the value anew each time.
        while heap and heap[0][0] <= self.value:
            self._release(heapq.heappop(heap)[2], True)
        self._drop_called()

    def expire(self, now: float) -> None:
        """Runs waiters whose deadline is `now` (monotonic seconds) or earlier, with False."""
        heap = self._by_deadline
        while heap and heap[0][0] <= now:
            self._release(heapq.heappop(heap)[2], False)
        self._drop_called()

    def set_back(self, value: int) -> None:
        """The number is `value` if it was more; runs the waiters of targets beyond it with False, in target order.

        The number counts something else from there on (a log that was cut).
        """
        self.value = min(self.value, value)
        for _, _, entry in sorted((item for item in self._by_target if item[0] > value), key=lambda item: item[:2]):
            self._release(entry, False)
        self._drop_called()

    def fail_all(self) -> None:
        """Runs all waiters with False, in target order: the number will grow no more."""
        entries = [entry for _, _, entry in sorted(self._by_target, key=lambda item: item[:2])]
        self._by_target.clear()
        self._by_deadline.clear()
        for entry in entries:
            self._release(entry, False)

    def _release(self, entry: _Entry, reached: bool) -> None:
        waiter = entry.waiter
        if waiter is None:
            return
        entry.waiter = None
        self._waiting -= 1
        call(waiter, reached)

    def _drop_called(self) -> None:
        """Rebuild a heap of mostly called entries: an entry that is called through one heap stays in the other."""
        if not self._waiting:
            self._by_target.clear()
            self._by_deadline.clear()
            return
        if len(self._by_deadline) > 2 * self._waiting + 64:
            self._by_deadline = [item for item in self._by_deadline if item[2].waiter is not None]
            heapq.heapify(self._by_deadline)
        if len(self._by_target) > 2 * self._waiting + 64:
            self._by_target = [item for item in self._by_target if item[2].waiter is not None]
            heapq.heapify(self._by_target)
