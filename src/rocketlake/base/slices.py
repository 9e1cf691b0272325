"""Long work inside a coroutine that gives way to other tasks now and then.

Owns        the number of steps between two breaks.
Must not know   what a step does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

__all__ = ["in_slices"]

T = TypeVar("T")

_STEPS = 100
"""About two milliseconds of the usual steps: topics and queues put into a text."""


async def in_slices(work: Generator[None, None, T]) -> T:
    """The result of the work; other tasks run between its slices."""
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        steps += 1
        if steps % _STEPS == 0:
            await asyncio.sleep(0)
