"""One store directory under two brokers by turns: Apache's writes, ours goes on, Apache's reads all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.apache import ApacheCluster, apache_cluster, run_driver
from tests.crash.broker_process import BrokerProcess

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "brokerName": "moved",
    "brokerIP1": "127.0.0.1",
}


def produce(cluster: ApacheCluster, count: int) -> None:
    assert run_driver("Produce", cluster.namesrv, "Moved", "sync", count, 500, "A,B") == {"sent": count, "failed": 0}


def consume(cluster: ApacheCluster, group: str, count: int) -> dict[str, int]:
    return run_driver("Consume", cluster.namesrv, "Moved", group, "*", "concurrent", count, 60, 0)


def test_a_store_moves_from_apache_to_us_and_back(apache_jars: None, tmp_path: Path) -> None:
    with apache_cluster(tmp_path, settings=SIZES) as cluster:
        produce(cluster, 3000)
        assert consume(cluster, "mover", 3000)["distinct"] == 3000
        cluster.stop_broker()

        here = {"namesrvAddr": cluster.namesrv, "storePathRootDir": cluster.store}
        ours = BrokerProcess(tmp_path / "ours", **SIZES, **here)
        ours.start()
        # The group goes on where it stopped: nothing comes twice, the new ones come.
        produce(cluster, 1000)
        again = consume(cluster, "mover", 1000)
        assert (again["distinct"], again["duplicates"]) == (1000, 0)
        from_start = consume(cluster, "late_reader", 3000)
        assert (from_start["distinct"], from_start["duplicates"]) == (3000, 1000)
        assert ours.stop() == 0

        cluster.start_broker()
        back = consume(cluster, "reader_after_return", 3000)
        assert (back["distinct"], back["duplicates"]) == (3000, 1000)
        nothing_new = run_driver("Consume", cluster.namesrv, "Moved", "late_reader", "*", "concurrent", 1, 8, 0)
    assert nothing_new["distinct"] == 0
