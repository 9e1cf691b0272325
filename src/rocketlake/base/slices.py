"""Long work inside of a coroutine, with the loop let go now and then.

Owns        how many steps are done before others come in between.
Must not know   what the work is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

__all__ = ["in_slices"]

T = TypeVar("T")

_STEPS = 100
"""Some two milliseconds of what is done here: topics and queues put into a text."""


async def in_slices(work: Generator[None, None, T]) -> T:
    """What the work returns; others run behind each hundred of its steps."""
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
