"""Every kind of bad message between good ones (tests/poison.py) in our broker's log, read by Apache's Java clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.apache import run_driver
from rocketlake.testing.cluster import EmbeddedCluster
from tests.poisoned import QUEUE, TOPIC, PoisonedQueue

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoisonedQueue]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        world = PoisonedQueue(cluster.namesrv, cluster.root / "store")
        cluster.run(world.fill())
        world.rot()
        yield world


@pytest.mark.parametrize("peer", ["server", "client49"])
def test_java_reads_on_to_the_end_and_one_by_one_all_good_messages(world: PoisonedQueue, peer: str) -> None:
    """Java's client drops what stands behind a body it cannot unpack in the same answer (decision 0013)."""
    last = len(world.good) - 1
    # Bodies of 100 MiB among them: it unpacks without a bound.
    got = run_driver(
        "Poisoned", world.namesrv, TOPIC, QUEUE, last, 100, f"by_{peer}", peer=peer, heap="3g", timeout=200
    )
    for name in ("push1", "orderly1", "pull1"):
        assert (got[f"{name}_good"], got[f"{name}_disorder"], got[f"{name}_last"]) == (last + 1, 0, last), (name, got)
    for name in ("push32", "orderly32", "pull32"):
        assert (got[f"{name}_disorder"], got[f"{name}_last"]) == (0, last), (name, got)
