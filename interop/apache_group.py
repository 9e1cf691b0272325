"""Owns starting a group of Apache's brokers in controller mode on loopback: a name server with its controller, brokers.

Jars come from Maven Central (`interop/apache.py`). One JVM for name server and controller, one a broker.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from interop.apache import OPENS, classpath, free_ports, wait_for_port

CLUSTER, NAME = "DefaultCluster", "group-a"


class ApacheBroker:
    """One broker of a group: its ports, its folder, its process."""

    def __init__(self, root: Path, namesrv: str, controller: str, settings: dict[str, object], peer: str) -> None:
        self.root = root
        self.peer = peer
        self.port, self.ha_port = free_ports(2)
        self.store = root / "store"
        self.settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": NAME,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": self.port,
            "haListenPort": self.ha_port,
            "namesrvAddr": namesrv,
            "enableControllerMode": "true",
            "controllerAddr": controller,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 99,
            "haSendHeartbeatInterval": 500,
            "registerNameServerPeriod": 10000,
            "syncBrokerMetadataPeriod": 1000,
            "syncControllerMetadataPeriod": 1000,
            "checkSyncStateSetPeriod": 500,
            "controllerHeartBeatTimeoutMills": 10000,
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it serves when the controller has given it a role."""
        self.root.mkdir(parents=True, exist_ok=True)
        conf = self.root / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        self.process = _launch("org.apache.rocketmq.broker.BrokerStartup", self.root, conf, "384m", self.peer)
        wait_for_port(self.port, self.process)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @property
    def epochs(self) -> str:
        """The text of its epoch file, "" if there is none."""
        path = self.store / "epochFileCheckpoint"
        return path.read_text() if path.exists() else ""


class ApacheGroup:
    """A name server with a controller, and the brokers of one group."""

    def __init__(self, root: Path, *, peer: str = "server550", scan_ms: int = 500) -> None:
        """`peer`: whose jars: `server` is 5.3.3, `server550` 5.5.0. `scan_ms`: how often it looks who is gone."""
        self.root = root
        self.peer = peer
        self._scan_ms = scan_ms
        self.namesrv_port, self.controller_port = free_ports(2)
        self.namesrv = f"127.0.0.1:{self.namesrv_port}"
        self.controller = f"127.0.0.1:{self.controller_port}"
        self.brokers: list[ApacheBroker] = []
        self._namesrv: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the name server with its controller."""
        root = self.root / "namesrv"
        root.mkdir(parents=True, exist_ok=True)
        conf = root / "namesrv.conf"
        settings = {
            "listenPort": self.namesrv_port,
            "enableControllerInNamesrv": "true",
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.controller}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": root / "controller",
            "mappedFileSize": 1 << 20,
            "scanNotActiveBrokerInterval": self._scan_ms,
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._namesrv = _launch("org.apache.rocketmq.namesrv.NamesrvStartup", root, conf, "256m", self.peer)
        wait_for_port(self.namesrv_port, self._namesrv)
        wait_for_port(self.controller_port, self._namesrv)

    def broker(self, *, namesrv: str = "", **settings: object) -> ApacheBroker:
        """A further broker, not started."""
        root = self.root / f"broker{len(self.brokers)}"
        made = ApacheBroker(root, namesrv or self.namesrv, self.controller, settings, self.peer)
        self.brokers.append(made)
        return made

    def kill_controller(self) -> None:
        """kill -9 of the name server with the controller; `start` brings it back with its store."""
        if self._namesrv is not None:
            self._namesrv.kill()
            self._namesrv.wait()

    def stop(self) -> None:
        """kill -9 all."""
        for broker in self.brokers:
            broker.kill()
        self.kill_controller()


def until(true: Callable[[], object], what: str, seconds: float = 40) -> None:
    """Return when `true()` is; raise with `what` if it does not come to that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return
        time.sleep(0.1)
    raise RuntimeError(f"{what}: not within {seconds:g} s")


def _launch(main: str, root: Path, conf: Path, heap: str, peer: str) -> subprocess.Popen[bytes]:
    command = ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=512m", "-XX:TieredStopAtLevel=1", *OPENS]
    command += [f"-Duser.home={root}", "-cp", classpath(peer), main, "-c", str(conf)]
    with (root / f"{main.rsplit('.', 1)[1]}.log").open("ab") as log:
        environment = {**os.environ, "ROCKETMQ_HOME": str(root)}
        return subprocess.Popen(command, cwd=root, stdout=log, stderr=subprocess.STDOUT, env=environment)
