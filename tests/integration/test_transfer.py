"""100 yuan become 100 points: the example, killed at each step, and the two orders that go wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.testing.cluster import EmbeddedCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "transfer.py"
ASKED_SOON = {
    "transactionCheckInterval": "300",
    "transactionTimeOut": "300",
    "transactionOpBatchInterval": "100",
    "transactionCheckMax": "1000",  # the next program starts within five minutes
}


async def make_topic(namesrv: str) -> None:
    async with Cluster(namesrv) as cluster:
        await cluster.create_topic(TopicPlan("transfers", 4, 6))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path / "cluster", settings=ASKED_SOON) as cluster:
        cluster.run(make_topic(cluster.namesrv))
        yield cluster


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "die_at", "accounts"),
    [
        ("transaction", 0, "0 yuan, 100 points"),
        ("transaction", 1, "100 yuan, 0 points"),
        ("transaction", 2, "0 yuan, 100 points"),
        ("database_first", 0, "0 yuan, 100 points"),
        ("database_first", 1, "0 yuan, 0 points"),
        ("message_first", 0, "0 yuan, 100 points"),
        ("message_first", 1, "100 yuan, 100 points"),
    ],
)
def test_yuan_and_points(cluster: EmbeddedCluster, tmp_path: Path, order: str, die_at: int, accounts: str) -> None:
    command = [sys.executable, EXAMPLE, cluster.namesrv, tmp_path]
    died = subprocess.run([*command, order, str(die_at)], timeout=120, check=False)
    assert died.returncode == (die_at > 0)
    settled = subprocess.run([*command, "settle"], stdout=subprocess.PIPE, timeout=120, check=True, text=True)
    assert settled.stdout.strip() == accounts
