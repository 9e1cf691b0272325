"""Dialogues with a whole broker: sending, held pulls, retries and dead letters, delay levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.broker_world import BrokerWorld

FILES = [
    path
    for folder in ("sends", "holds", "retry", "delay")
    for path in sorted((Path(__file__).parent / folder).glob("*.txt"))
]


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    world = BrokerWorld()
    yield world
    world.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_broker(path: Path, play: Callable[[Path, Any], None], world: BrokerWorld) -> None:
    play(path, world)
