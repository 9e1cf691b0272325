"""Owns Apache's proxy beside a running broker or with one inside, and the official Python client in a place of its own.

The official client (rocketmq-python-client, gRPC) cannot talk to a broker: it needs the proxy. A peer that
cannot be fetched raises PeerMissing with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.apache import OPENS, TARGET, ApacheCluster, PeerMissing, classpath, free_ports, wait_for_port

CLIENT = "rocketmq-python-client==5.1.2"


class ApacheProxy:
    """The proxy as a process in cluster mode: it finds the broker through the name server."""

    def __init__(self, root: Path, namesrv: str, peer: str = "proxy") -> None:
        """`peer`: whose jars: `proxy` is 5.3.3, `proxy550` 5.5.0."""
        self.root, self.namesrv, self._peer = root, namesrv, peer
        self._port, self._remoting_port = free_ports(2)
        self.endpoint = f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        conf = self.root / "rmq-proxy.json"
        settings = {"rocketMQClusterName": "DefaultCluster", "proxyClusterName": "DefaultCluster"}
        ports = {"grpcServerPort": self._port, "remotingListenPort": self._remoting_port}
        conf.write_text(json.dumps({**settings, **ports, "namesrvAddr": self.namesrv, "localServeAddr": "127.0.0.1"}))
        command = ["java", "-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", *OPENS, f"-Duser.home={self.root}"]
        command += ["-cp", classpath(self._peer), "org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(conf)]
        command += ["-pm", "CLUSTER", "-n", self.namesrv]
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.root), "RMQ_PROXY_HOME": str(self.root)}
        with (self.root / "proxy.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.root, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        try:
            wait_for_port(self._port, self._process, 90)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid


class ApacheWithProxy(ApacheCluster):
    """The name server, and the broker inside of the proxy (local mode): one process, of 5.5.0 unless told otherwise."""

    def __init__(self, root: Path, *, heap: str = "512m", settings: dict[str, object] | None = None) -> None:
        super().__init__(root, heap=heap, settings=settings, peer="proxy550")
        self._ports = free_ports(2)
        self.endpoint = f"127.0.0.1:{self._ports[0]}"

    def _launch_broker(self, conf: str) -> None:
        broker_conf, proxy_conf = self.root / "broker.conf", self.root / "rmq-proxy.json"
        broker_conf.write_text(conf)
        settings = {"rocketMQClusterName": "DefaultCluster", "proxyClusterName": "DefaultCluster"}
        ports = {"grpcServerPort": self._ports[0], "remotingListenPort": self._ports[1]}
        more = {"namesrvAddr": self.namesrv, "localServeAddr": "127.0.0.1", "proxyMode": "LOCAL"}
        proxy_conf.write_text(json.dumps({**settings, **ports, **more}))
        arguments = ("-pc", str(proxy_conf), "-pm", "LOCAL", "-bc", str(broker_conf), "-n", self.namesrv)
        self._launch("org.apache.rocketmq.proxy.ProxyStartup", *arguments, heap=self.heap)


def official_python() -> Path:
    """A Python that has the official client."""
    return python_with(CLIENT, "python-client")


def python_with(requirement: str, name: str) -> Path:
    """A Python that has this package (`name==version`); its environment is made once and kept under target/`name`."""
    folder = TARGET / name
    python, ready = folder / "bin" / "python", folder / requirement
    if ready.exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise PeerMissing(f"{requirement}: pip could not install it: {done.stderr[-300:]}")
    ready.touch()
    return python
