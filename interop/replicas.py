"""Owns Apache's brokers in controller mode: starting, killing and asking them on loopback; Apache's mqadmin."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from interop.apache import OPENS, classpath, compiled_drivers, free_ports, wait_for_port

FAST: dict[str, object] = {
    "haSendHeartbeatInterval": 500,
    "brokerHeartbeatInterval": 200,
    "controllerHeartBeatTimeoutMills": 1500,
    "syncBrokerMetadataPeriod": 500,
    "syncControllerMetadataPeriod": 1000,
    "checkSyncStateSetPeriod": 500,
    "registerNameServerPeriod": 10_000,
}
"""Java's shortest sensible pauses: with its own a test would wait for most of its time."""


class JavaReplica:
    """One broker of Apache in controller mode."""

    def __init__(self, root: Path, namesrv: str, *, peer: str = "server550", group: str = "java-group") -> None:
        self.root = root
        self.peer = peer
        self.port, ha_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.settings: dict[str, object] = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": group,
            "brokerIP1": "127.0.0.1",
            "listenPort": self.port,
            "haListenPort": ha_port,
            "namesrvAddr": namesrv,
            "controllerAddr": namesrv,
            "enableControllerMode": "true",
            "storePathRootDir": root / "store",
            "storePathCommitLog": root / "store" / "commitlog",
            "storePathEpochFile": root / "store" / "epochFileCheckpoint",
            "storePathBrokerIdentity": root / "store" / "brokerIdentity",
            "mappedFileSizeCommitLog": 1 << 20,
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 99,
            **FAST,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it is not awaited."""
        self.root.mkdir(parents=True, exist_ok=True)
        conf = self.root / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        command = [
            "java",
            "-Xms192m",
            "-Xmx192m",
            "-XX:TieredStopAtLevel=1",
            "-XX:MaxDirectMemorySize=512m",
            "-XX:+UseSerialGC",
            *OPENS,
        ]
        command += [f"-Duser.home={self.root}", "-cp", classpath(self.peer)]
        command += ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)]
        with (self.root / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.root,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ROCKETMQ_HOME": str(self.root)},
            )

    def wait(self) -> None:
        """Return when the broker listens."""
        assert self._process is not None
        wait_for_port(self.port, self._process)

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections, and does nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def mqadmin(
    home: Path, *commands: tuple[str, ...], peer: str = "server550", fails_on: str = "SubCommandException"
) -> list[str]:
    """What Apache's tool prints for each of these commands, run in one virtual machine; `fails_on` raises."""
    words = [word for command in commands for word in (",", *command)][1:]
    line = [
        "java",
        "-Xmx192m",
        "-XX:TieredStopAtLevel=1",
        f"-Duser.home={home}",
        "-cp",
        compiled_drivers(peer),
        "Admin",
    ]
    environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
    limit = 300 + 10 * len(commands)
    done = subprocess.run([*line, *words], capture_output=True, text=True, timeout=limit, env=environment, cwd=home)
    if done.returncode or (fails_on and fails_on in done.stdout):  # mqadmin ends with 0 all the same
        raise RuntimeError(f"mqadmin {' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    log = "|-"  # of its logging, about itself
    printed = "\n".join(["", *(each for each in done.stdout.splitlines() if log not in each)])
    return [part.partition("\n")[2] for part in printed.split("\n== ")[1:]]
