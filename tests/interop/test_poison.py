"""Every kind of bad message between good ones (tests/poison.py) in our broker's log, read by Apache's Java clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from interop.apache import run_driver
from rocketlake.testing.cluster import EmbeddedCluster
from tests.poison import KINDS, Fate, Kind
from tests.poisoned import QUEUE, PoisonedQueue

pytestmark = pytest.mark.interop

UNPACKABLE = [kind for kind in KINDS if kind.fate is not Fate.DAMAGED and kind.java_unpacks]


@pytest.fixture(scope="module")
def cluster(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def poisoned(cluster: EmbeddedCluster, kinds: Sequence[Kind], topic: str) -> PoisonedQueue:
    world = PoisonedQueue(cluster.namesrv, cluster.root / "store", kinds, topic)
    cluster.run(world.fill())
    world.rot()
    return world


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> PoisonedQueue:
    return poisoned(cluster, KINDS, "Poisoned")


@pytest.fixture(scope="module")
def unpackable(cluster: EmbeddedCluster) -> PoisonedQueue:
    """All kinds but bodies that cannot be unpacked."""
    return poisoned(cluster, UNPACKABLE, "Unpackable")


def read(world: PoisonedQueue, peer: str) -> dict[str, Any]:
    """What each of Java's clients got of it: `<client><batch>_good`, `_disorder`, `_last`."""
    last = len(world.good) - 1
    # Bodies of 100 MiB among them: it unpacks without a bound.
    group = f"{world.topic}_by_{peer}"
    return run_driver(
        "Poisoned", world.namesrv, world.topic, QUEUE, last, 100, group, peer=peer, heap="3g", timeout=200
    )


@pytest.mark.parametrize("peer", ["server", "client49"])
def test_java_reads_on_to_the_end_and_one_by_one_all_good_messages(world: PoisonedQueue, peer: str) -> None:
    """Java's client drops what stands behind a body it cannot unpack in the same answer (decision 0013)."""
    last = len(world.good) - 1
    got = read(world, peer)
    for name in ("push1", "orderly1", "pull1"):
        assert (got[f"{name}_good"], got[f"{name}_disorder"], got[f"{name}_last"]) == (last + 1, 0, last), (name, got)
    for name in ("push32", "orderly32", "pull32"):
        assert (got[f"{name}_disorder"], got[f"{name}_last"]) == (0, last), (name, got)


def test_java_reads_all_good_messages_in_whole_answers(unpackable: PoisonedQueue) -> None:
    """Its usual 32 at a time, around every kind of bad message whose body it need not unpack."""
    assert len({kind.name for kind in UNPACKABLE}) >= 40
    last = len(unpackable.good) - 1
    got = read(unpackable, "server")
    for name in ("push32", "orderly32", "pull32", "push1", "orderly1", "pull1"):
        assert (got[f"{name}_good"], got[f"{name}_disorder"], got[f"{name}_last"]) == (last + 1, 0, last), (name, got)
