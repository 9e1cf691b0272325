"""Dialogues with a whole broker: sending, held pulls, retries and dead letters, delay levels, transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.broker_world import BrokerWorld

FOLDER = Path(__file__).parent


def scenarios(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((FOLDER / folder).glob("*.txt"))]


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def world(request: pytest.FixtureRequest) -> Iterator[BrokerWorld]:
    """What clients see must not depend on when the broker syncs."""
    world = BrokerWorld(request.param)
    yield world
    world.close()


@pytest.mark.parametrize(
    "path", scenarios("sends", "holds", "replies", "retry", "delay", "transactions", "roles", "pops"), ids=name
)
def test_broker(path: Path, play: Callable[[Path, Any], None], world: BrokerWorld) -> None:
    play(path, world)


@pytest.mark.parametrize("world", ["ASYNC_FLUSH"], indirect=True)
@pytest.mark.parametrize("path", scenarios("async_flush"), ids=name)
def test_broker_that_syncs_by_the_clock(path: Path, play: Callable[[Path, Any], None], world: BrokerWorld) -> None:
    play(path, world)
