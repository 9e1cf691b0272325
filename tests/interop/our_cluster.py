"""Owns our cluster as a process of its own, started by the command that users type."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interop.apache import free_ports, wait_for_port
from tests.tls_files import Authority


@contextmanager
def our_brokers(root: Path, *options: str, settings: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(name server, broker) of a cluster started as users start it; `settings`: `key=value` each.

    Every port is a free one: the usual ports of metrics and gRPC are wanted by the clusters of other tests, too.
    """
    namesrv_port, broker_port = free_ports(2)
    command = [sys.executable, "-m", "rocketlake", "up", "--dir", str(root / "data"), *options]
    command += ["--namesrv-port", str(namesrv_port), "--broker-port", str(broker_port), "--metrics-port", "0"]
    for setting in ("grpcServerPort=-1", *settings):
        command += ["--set", setting]
    with (root / "up.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(broker_port, process)
        yield f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{broker_port}"
    finally:
        process.terminate()
        assert process.wait(60) == 0, (root / "up.log").read_text()[-3000:]


@contextmanager
def our_cluster(root: Path, *settings: str) -> Iterator[str]:
    """Name server and one broker with these settings, `key=value`; the address of the name server."""
    with our_brokers(root, settings=settings) as (namesrv, _broker):
        yield namesrv


@contextmanager
def guarded_cluster(root: Path, grpc_port: int, root_user: tuple[str, str]) -> Iterator[tuple[str, Authority]]:
    """One that asks who its clients are, and takes encrypted links: (name server, who has signed its certificate)."""
    authority = Authority(root / "authority")
    first = json.dumps({"username": root_user[0], "password": root_user[1]})
    access = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    tls = ("tlsMode=permissive", f"tlsConfigFile={authority.file()}")
    with our_cluster(root, f"grpcServerPort={grpc_port}", *access, *tls) as namesrv:
        until_open(grpc_port)
        yield namesrv, authority


def until_open(port: int) -> None:
    """The proxy listens a moment after the broker."""
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port}")
