"""Real peers for the tests of this folder: Apache's servers, and our cluster as a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.apache import ApacheCluster, apache_cluster
from tests.interop.our_cluster import our_cluster


@pytest.fixture(scope="package")
def apache(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Apache's name server and broker, one for all tests here."""
    with apache_cluster(tmp_path_factory.mktemp("apache"), settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def our_namesrv(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server address of our cluster, started by the command that users type."""
    with our_cluster(tmp_path_factory.mktemp("rocketlake")) as namesrv:
        yield namesrv
