"""Owns the two sides of a comparison: Apache's servers and ours, started alike, each in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from bench import wire
from bench.process import context_switches, cpu_seconds, memory_mb
from interop.apache import ApacheCluster, free_ports, wait_for_port


class Side:
    """One cluster under test. After start(): `namesrv`, `broker`, `broker_pid`, `start_seconds` (to the first ack)."""

    name: str
    namesrv: str
    broker: str
    broker_pid: int
    start_seconds: float
    store: Path

    def __enter__(self) -> Side:
        self.start_namesrv()
        try:
            self.start_broker()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start_namesrv(self) -> None:
        raise NotImplementedError

    def start_broker(self) -> None:
        """Start the broker on what its store holds; both sides are timed in the same way."""
        began = time.monotonic()
        self.broker_pid = self._launch_broker()
        self.start_seconds = wire.seconds_to_first_send(self.broker, began)
        wire.await_route(self.namesrv, "BenchmarkTest", self.broker)

    def _launch_broker(self) -> int:
        raise NotImplementedError

    def kill_broker(self) -> None:
        """kill -9."""
        raise NotImplementedError

    def stop_broker(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Kill both servers: nobody needs their stores any more."""
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.broker_pid)

    def context_switches(self) -> int:
        return context_switches(self.broker_pid)

    def memory_mb(self) -> dict[str, float]:
        return memory_mb(self.broker_pid)

    def counts(self) -> tuple[int, int]:
        """Messages put so far and bytes of the commit log, as the broker itself counts them."""
        table = wire.runtime_info(self.broker)
        return int(table["putMessageTimesTotal"]), int(table["commitLogMaxOffset"])


class Apache(Side):
    """Apache RocketMQ 5.5.0 in its default configuration but a 1 GiB heap."""

    name = "apache"
    peer = "server550"
    """Whose jars."""

    def __init__(self, root: Path, settings: dict[str, object] | None = None) -> None:
        self._cluster = ApacheCluster(root, heap="1g", settings=settings, peer=self.peer)
        self.namesrv, self.broker = self._cluster.namesrv, self._cluster.broker
        self.store = self._cluster.store

    def start_namesrv(self) -> None:
        self._cluster.start_namesrv()

    def _launch_broker(self) -> int:
        self._cluster.launch_broker()
        return self._cluster.broker_pid

    def kill_broker(self) -> None:
        self._cluster.kill_broker()

    def stop_broker(self) -> None:
        self._cluster.stop_broker()

    def stop(self) -> None:
        self._cluster.kill()


class RocketLake(Side):
    """Our name server and broker, two processes, default configuration."""

    name = "rocketlake"
    python_path: str | None = None
    """Where the servers are taken from, if not from this checkout."""

    def __init__(self, root: Path, settings: dict[str, object] | None = None) -> None:
        self.root = root
        self.store = root / "store"
        self._ports = free_ports(2)
        self.namesrv, self.broker = (f"127.0.0.1:{port}" for port in self._ports)
        self._settings = {
            "brokerName": "rocketlake-a",
            "listenPort": self._ports[1],
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store,
            **(settings or {}),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start_namesrv(self) -> None:
        self.root.mkdir(parents=True)
        self._launch("run", "namesrv", "--port", str(self._ports[0]))
        wait_for_port(self._ports[0], self._processes[-1])

    def _launch_broker(self) -> int:
        conf = self.root / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        self._launch("run", "broker", "-c", str(conf))
        return self._processes[-1].pid

    def kill_broker(self) -> None:
        process = self._processes.pop()
        process.kill()
        process.wait()

    def stop_broker(self) -> None:
        process = self._processes.pop()
        process.terminate()
        process.wait(60)

    def stop(self) -> None:
        while self._processes:
            self.kill_broker()

    def _launch(self, *arguments: str) -> None:
        with (self.root / f"{arguments[0]}.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", *arguments]
            environment = dict(os.environ)
            if self.python_path is not None:
                environment["PYTHONPATH"] = self.python_path
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))


SIDES: tuple[type[Apache] | type[RocketLake], ...] = (Apache, RocketLake)
