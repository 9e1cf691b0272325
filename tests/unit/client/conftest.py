"""Shared by the client's unit tests: a hand-moved clock, a service to spawn on, numbered messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service("test")
    await service.start()
    yield service
    await service.stop()
