"""The embedded cluster of the testing package."""

from __future__ import annotations

from pathlib import Path

from rocketlake.spark.cluster import cluster_client
from rocketlake.testing.cluster import EmbeddedCluster


def test_no_client_of_this_process_outlives_its_cluster(tmp_path: Path) -> None:
    """It went on asking for routes, and logged each failure, until the process ended."""
    with EmbeddedCluster(tmp_path) as cluster:
        client, _ = cluster_client(cluster.namesrv)
        assert client.is_running
    assert not client.is_running
    with EmbeddedCluster(tmp_path) as cluster:
        again, _ = cluster_client(cluster.namesrv)
        assert again is not client
