"""Owns our cluster as a process of its own, started by the command that users type."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interop.apache import free_ports, wait_for_port


@contextmanager
def our_cluster(root: Path, *settings: str) -> Iterator[str]:
    """Name server and broker with these settings, `key=value`; the address of the name server."""
    namesrv_port, broker_port = free_ports(2)
    command = [sys.executable, "-m", "rocketlake", "up", "--dir", str(root / "data")]
    command += ["--namesrv-port", str(namesrv_port), "--broker-port", str(broker_port)]
    for setting in settings:
        command += ["--set", setting]
    with (root / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(broker_port, process)
        yield f"127.0.0.1:{namesrv_port}"
    finally:
        process.terminate()
        assert process.wait(30) == 0, (root / "up.log").read_text()[-3000:]


def until_open(port: int) -> None:
    """The proxy listens a moment after the broker."""
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port}")
