"""Real peers for the tests of this folder: Apache's servers, and our cluster as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from interop.apache import ApacheCluster, apache_cluster, free_ports, wait_for_port


@pytest.fixture(scope="package")
def apache(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Apache's name server and broker, one for all tests here."""
    with apache_cluster(tmp_path_factory.mktemp("apache"), settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def our_namesrv(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server address of our cluster, started by the command that users type."""
    root = tmp_path_factory.mktemp("rocketlake")
    namesrv_port, broker_port = free_ports(2)
    command = [sys.executable, "-m", "rocketlake", "up", "--dir", str(root / "data")]
    command += ["--namesrv-port", str(namesrv_port), "--broker-port", str(broker_port)]
    with (root / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(broker_port, process)
        yield f"127.0.0.1:{namesrv_port}"
    finally:
        process.terminate()
        assert process.wait(30) == 0, (root / "up.log").read_text()[-3000:]
