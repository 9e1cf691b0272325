from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.store.store_world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A disk and a clock for stores; whatever is still open at the end is killed."""
    world = World()
    yield world
    await world.killed()
