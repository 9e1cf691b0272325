"""Owns the two sides of a comparison: Apache's servers and ours, started alike, each in a folder of its own."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from bench.process import cpu_seconds, memory_mb
from interop.apache import ApacheCluster, free_ports, wait_for_port


class Side:
    """One cluster under test. After start(): `namesrv`, `broker_pid`, `start_seconds` (to the first acked send)."""

    name: str
    namesrv: str
    broker: str
    broker_pid: int
    start_seconds: float

    def __enter__(self) -> Side:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.broker_pid)

    def memory_mb(self) -> dict[str, float]:
        return memory_mb(self.broker_pid)


class Apache(Side):
    """Apache RocketMQ 5.3.3 in its default configuration but a 1 GiB heap."""

    name = "apache"

    def __init__(self, root: Path, settings: dict[str, object] | None = None) -> None:
        self._cluster = ApacheCluster(root, heap="1g", settings=settings)
        self.namesrv, self.broker = self._cluster.namesrv, self._cluster.broker

    def start(self) -> None:
        self._cluster.start_namesrv()
        began = time.monotonic()
        self._cluster.start_broker()
        self.start_seconds = seconds_to_first_send(self.broker, began)
        self.broker_pid = self._cluster.broker_pid

    def stop(self) -> None:
        self._cluster.stop()


class RocketLake(Side):
    """Our name server and broker, two processes, default configuration."""

    name = "rocketlake"

    def __init__(self, root: Path, settings: dict[str, object] | None = None) -> None:
        self.root = root
        self._ports = free_ports(2)
        self.namesrv, self.broker = (f"127.0.0.1:{port}" for port in self._ports)
        self._settings = {
            "brokerName": "rocketlake-a",
            "listenPort": self._ports[1],
            "namesrvAddr": self.namesrv,
            "storePathRootDir": root / "store",
            **(settings or {}),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.root.mkdir(parents=True)
        self._launch("namesrv", "--port", str(self._ports[0]))
        wait_for_port(self._ports[0], self._processes[-1])
        conf = self.root / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        began = time.monotonic()
        self._launch("broker", "-c", str(conf))
        self.broker_pid = self._processes[-1].pid
        self.start_seconds = seconds_to_first_send(self.broker, began)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)

    def _launch(self, *arguments: str) -> None:
        with (self.root / f"{arguments[0]}.log").open("wb") as log:
            command = [sys.executable, "-m", "rocketlake", *arguments]
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ))
            )


def seconds_to_first_send(address: str, began: float, limit: float = 60) -> float:
    """Seconds from `began` to the first acknowledged send of one small message, trying every 5 ms."""
    host, port = address.split(":")
    fields = {"a": "bench_start", "b": "BenchmarkTest", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    fields |= {"g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    header = json.dumps(
        {"code": 310, "flag": 0, "language": "JAVA", "opaque": 1, "version": 479, "extFields": fields}
    ).encode()
    frame = struct.pack(">ii", 4 + len(header) + 1, len(header)) + header + b"x"
    while time.monotonic() < began + limit:
        try:
            # A broker that accepts before it can serve may never answer: a long wait would be counted as its start.
            with socket.create_connection((host, int(port)), timeout=0.25) as link:
                link.sendall(frame)
                if b'"code":0' in link.recv(65536):
                    return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.005)
    raise RuntimeError(f"no acknowledged send at {address} within {limit:.0f} s")
