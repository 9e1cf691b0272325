"""Pytest fixtures of RocketLake; installed with the package, so that tests of any project can use them.

Owns        the fixtures' names and scopes.
Must not know   how a cluster is started (cluster.py). Nothing heavy is imported before a fixture is used.

Where pytest-asyncio is installed the asynchronous fixture is made by it, so that its strict mode works, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from rocketlake.standalone import Standalone
    from rocketlake.testing.cluster import EmbeddedCluster

__all__ = ["rocketlake_cluster", "rocketlake_standalone"]

F = TypeVar("F", bound=Callable[..., Any])


def _async_fixture(function: F) -> F:
    decorate: Any = pytest.fixture
    with contextlib.suppress(ImportError):  # the other fixture needs no plugin
        from pytest_asyncio import fixture as decorate
    made: F = decorate(function)
    return made


@_async_fixture
async def rocketlake_standalone(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Standalone]:
    """A cluster on the test's own event loop (needs pytest-asyncio); `.namesrv_address` is for clients."""
    from rocketlake.standalone import Standalone

    async with Standalone(tmp_path_factory.mktemp("rocketlake")) as standalone:
        yield standalone


@pytest.fixture
def rocketlake_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster on a thread of its own, for synchronous tests; `.namesrv` is for clients."""
    from rocketlake.testing.cluster import EmbeddedCluster

    with EmbeddedCluster(tmp_path_factory.mktemp("rocketlake")) as cluster:
        yield cluster
