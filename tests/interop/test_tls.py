"""TLS with Apache's: its Java client on our servers that take encrypted connections only, our client on its."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from interop.apache import free_ports, run_driver, wait_for_port
from tests.tls_files import Authority

pytestmark = pytest.mark.interop

PEER = "server550"
COUNT = 2000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def enforcing(apache_jars: None, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our name server; it and our broker take encrypted connections only."""
    root = tmp_path_factory.mktemp("rocketlake")
    namesrv_port, broker_port = free_ports(2)
    command = [sys.executable, "-m", "rocketlake", "up", "--dir", str(root / "data")]
    command += ["--namesrv-port", str(namesrv_port), "--broker-port", str(broker_port)]
    command += ["--set", "tlsMode=enforcing", "--set", f"tlsConfigFile={authority.file()}"]
    with (root / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(broker_port, process)
        yield f"127.0.0.1:{namesrv_port}"
    finally:
        process.terminate()
        assert process.wait(30) == 0, (root / "up.log").read_text()[-3000:]


def java(*arguments: object, **properties: str) -> dict[str, int]:
    return run_driver(*map(str, arguments), peer=PEER, properties={"tls.enable": "true", **properties})


@pytest.mark.smoke
def test_javas_client_sends_and_consumes(enforcing: str) -> None:
    assert java("Produce", enforcing, "Secret", "async", COUNT, 200, "A") == {"sent": COUNT, "failed": 0}
    got = java("Consume", enforcing, "Secret", "secret", "*", "concurrent", COUNT, 60, 0)
    assert (got["distinct"], got["sum"]) == (COUNT, COUNT * (COUNT - 1) // 2)


def test_javas_client_checks_our_certificate(enforcing: str, authority: Authority) -> None:
    file = authority.file("java", {"tls.test.mode.enable": "false", "tls.client.authServer": "true"})
    sent = java("Produce", enforcing, "Checked", "sync", 10, 20_000, "A", **{"tls.config.file": file})
    assert sent == {"sent": 10, "failed": 0}


def test_javas_plain_client_is_sent_away(enforcing: str, authority: Authority) -> None:
    with pytest.raises(RuntimeError, match="Produce failed"):
        run_driver("Produce", enforcing, "Plain", "sync", 1, 10, "A", peer=PEER)
