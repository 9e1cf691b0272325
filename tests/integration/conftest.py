"""One cluster for a module of tests, and the command line as a user types it there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from typer.testing import CliRunner

from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import load_broker_conf
from rocketlake.cli.tree import app
from rocketlake.standalone import SETTINGS
from rocketlake.testing.cluster import EmbeddedCluster


class Typed(Protocol):
    """rocketlake("topic", "list") -> standard output."""

    def __call__(self, *words: str, given: str | None = None) -> str: ...


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def rocketlake(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Fails unless the exit code is 0; raises what the command raised."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*words: str, given: str | None = None) -> str:
        result = CliRunner().invoke(app, words, input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return typed


@contextmanager
def second_broker(cluster: EmbeddedCluster, root: Path) -> Iterator[Broker]:
    """A broker `broker-b` that joins the cluster and leaves it again; its folder stays."""
    settings = {**SETTINGS, "brokerName": "broker-b", "bindAddress": "127.0.0.1", "listenPort": "0"}
    settings |= {"fastListenPort": "0", "namesrvAddr": cluster.namesrv, "storePathRootDir": str(root)}

    async def start() -> Broker:
        broker = Broker(*load_broker_conf(overrides=settings), files=PosixFiles(), clock=SystemClock())
        await broker.start()
        return broker

    broker = cluster.run(start())
    try:
        yield broker
    finally:
        cluster.run(broker.stop())
