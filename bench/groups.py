"""Owns the two sides of a comparison of groups: Apache 5.5.0 in controller mode and ours, started and asked alike.

Must not know   what is measured.

One name server with its controller, and brokers one by one, each a process in a folder of its own. Settings are the
defaults of each side but for the ports, what a test gives, and a heap of 1 GiB for each of Apache's brokers.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from bench import wire
from bench.process import cpu_seconds
from bench.window import wait_until
from interop.apache import OPENS, classpath, free_ports, wait_for_port

NAME = "group-a"
TOPIC = "BenchmarkTest"
GET_SYNC_STATE = 1006
MASTER = re.compile(rb'"masterAddress":"([^"]+)"')
IN_STEP = re.compile(rb'"inSyncReplicas":(\[.*?\])', re.DOTALL)


class Replica:
    """One broker of a group."""

    def __init__(self, group: Group, root: Path, settings: dict[str, object]) -> None:
        self.root = root
        (ha_port,) = free_ports(1)
        self.port = ha_port - 1  # as both sides have it, unless it is set
        self.address = f"127.0.0.1:{self.port}"
        self.store = root / "store"
        self._group = group
        self._settings: dict[str, object] = {
            "brokerName": NAME,
            "listenPort": self.port,
            "haListenPort": ha_port,
            "namesrvAddr": group.namesrv,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it; it serves when it has a role."""
        self.root.mkdir(parents=True, exist_ok=True)
        conf = self.root / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        self.process = self._group.launch("broker", self.root, conf)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self, seconds: float = 60) -> None:
        """An orderly end."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(seconds)
            self.process = None

    def hang(self) -> None:
        """SIGSTOP: it keeps its connections, and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def log_end(self) -> int:
        """Where its commit log ends; -1 while it does not answer."""
        try:
            _header, body = wire.ask(self.address, wire.GET_BROKER_RUNTIME_INFO)
        except (OSError, RuntimeError):
            return -1
        found = re.search(rb'"commitLogMaxOffset":"(-?\d+)"', body)
        return int(found[1]) if found else -1

    def messages(self, topic: str) -> int:
        """Messages in its queues; -1 while it does not answer."""
        try:
            return wire.messages_of(self.address, topic)
        except (OSError, RuntimeError):
            return -1

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)


class Group:
    """A name server with its controller, and the brokers of one group."""

    name: str
    settings: ClassVar[dict[str, object]]
    """Of each broker."""

    def __init__(self, root: Path, *, is_classic: bool = False) -> None:
        """`is_classic`: without a controller, the first broker is the master."""
        self.root = root
        self._is_classic = is_classic
        self.namesrv_port, self.controller_port = self._ports()
        self.namesrv, self.controller = f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.controller_port}"
        self.brokers: list[Replica] = []
        self._made = 0
        self._namesrv: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        root = self.root / "namesrv"
        root.mkdir(parents=True)
        conf = root / "namesrv.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self._namesrv_settings(root).items()))
        self._namesrv = self.launch("namesrv", root, conf)
        wait_for_port(self.namesrv_port, self._namesrv)
        wait_for_port(self.controller_port, self._namesrv)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for broker in self.brokers:
            broker.kill()
        if self._namesrv is not None:
            self._namesrv.kill()
            self._namesrv.wait()

    def broker(self, **settings: object) -> Replica:
        """A further broker, not started."""
        self._made += 1
        role = self._role(self._made - 1)
        made = Replica(self, self.root / f"broker{self._made}", {**self.settings, **role, **settings})
        self.brokers.append(made)
        return made

    def _role(self, number: int) -> dict[str, object]:
        if self._is_classic:
            return {"brokerId": number, "brokerRole": "SLAVE" if number else "ASYNC_MASTER"}
        return {"enableControllerMode": "true", "controllerAddr": self.controller}

    def standing(self) -> tuple[str, int]:
        """The address of the master, and how many replicas are in step, the master among them."""
        if self._is_classic:
            return self.brokers[0].address, 1
        try:
            with wire.connect(self.controller, timeout=2) as link:
                link.sendall(wire.frame(GET_SYNC_STATE, {}, f'["{NAME}"]'.encode()))
                _header, body = wire.receive_frame(link)
        except OSError:
            return "", 0
        master, in_step = MASTER.search(body), IN_STEP.search(body)
        return (master[1].decode() if master else ""), (in_step[1].count(b"brokerAddress") if in_step else 0)

    def in_step(self, count: int, seconds: float = 90) -> Replica:
        """The master, when so many replicas are in step."""
        wait_until(lambda: self.standing()[1] == count and bool(self.standing()[0]), f"{count} in step", seconds)
        master = self.standing()[0]
        return next(broker for broker in self.brokers if broker.address == master)

    def settled(self, count: int, seconds: float = 90) -> Replica:
        """The same, when the master takes messages and the name server knows it."""
        master = self.in_step(count, seconds)
        wire.seconds_to_first_send(master.address, time.monotonic())
        wire.await_route(self.namesrv, TOPIC, master.address)
        return master

    def _ports(self) -> list[int]:
        raise NotImplementedError

    def _namesrv_settings(self, root: Path) -> dict[str, object]:
        raise NotImplementedError

    def launch(self, what: str, root: Path, conf: Path) -> subprocess.Popen[bytes]:
        """Start "namesrv" or "broker"."""
        raise NotImplementedError


class ApacheGroup(Group):
    """Apache RocketMQ 5.5.0."""

    name = "apache"
    settings: ClassVar[dict[str, object]] = {
        "brokerClusterName": "DefaultCluster",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "autoCreateTopicEnable": "true",
        "diskMaxUsedSpaceRatio": 99,
    }

    def _ports(self) -> list[int]:
        return free_ports(2)

    def _namesrv_settings(self, root: Path) -> dict[str, object]:
        return {
            "listenPort": self.namesrv_port,
            "enableControllerInNamesrv": "true",
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.controller}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": root / "controller",
            "mappedFileSize": 1 << 20,
        }

    def launch(self, what: str, root: Path, conf: Path) -> subprocess.Popen[bytes]:
        main, heap = {"namesrv": ("namesrv.Namesrv", "256m"), "broker": ("broker.Broker", "1g")}[what]
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=1g", *OPENS]
        command += [f"-Duser.home={root}", "-cp", classpath("server550"), f"org.apache.rocketmq.{main}Startup"]
        environment = {**os.environ, "ROCKETMQ_HOME": str(root)}
        with (root / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "-c", str(conf)], cwd=root, stdout=log, stderr=subprocess.STDOUT, env=environment
            )


class OurGroup(Group):
    """RocketLake."""

    name = "rocketlake"
    settings: ClassVar[dict[str, object]] = {"fastListenPort": 0}

    def _ports(self) -> list[int]:
        return free_ports(1) * 2

    def _namesrv_settings(self, root: Path) -> dict[str, object]:
        return {"listenPort": self.namesrv_port, "enableControllerInNamesrv": "true", "kvConfigPath": root / "kv.json"}

    def launch(self, what: str, root: Path, conf: Path) -> subprocess.Popen[bytes]:
        with (root / f"{what}.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", "run", what, "-c", str(conf)]
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


GROUPS: tuple[type[ApacheGroup], type[OurGroup]] = (ApacheGroup, OurGroup)
