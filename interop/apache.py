"""Owns starting Apache RocketMQ's name server, broker and Java drivers on loopback, and stopping them again.

Jars come from Maven Central through `mvn`; a peer that cannot be fetched raises PeerMissing with the reason.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from interop import checksums

HERE = Path(__file__).resolve().parent / "java"
TARGET = HERE / "target"
OPENS = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]


class PeerMissing(Exception):
    """A peer cannot be had on this machine; the text says which and why."""


def classpath(name: str) -> str:
    """The class path of `<name>.pom.xml`, resolved by Maven once and kept under target/."""
    with alone(name):
        return _kept(name) or _fetched(name)


def _kept(name: str) -> str:
    """What was fetched before, "" if that is not whole."""
    kept = TARGET / f"{name}.classpath"
    if not kept.exists() or kept.stat().st_mtime < (HERE / f"{name}.pom.xml").stat().st_mtime:
        return ""
    text = kept.read_text().strip()
    return text if all(Path(jar).exists() for jar in text.split(":")) else ""


def _fetched(name: str) -> str:
    """Fetch them, and keep where they are if each is the one that we know. Raises WrongJar."""
    jars = fetched_jars(name)
    checksums.check(jars)
    text = ":".join(map(str, jars))
    (TARGET / f"{name}.classpath").write_text(text)
    return text


def fetched_jars(name: str) -> list[Path]:
    """The jars of `<name>.pom.xml`, fetched by Maven where they are not there; not compared with what we know."""
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            raise PeerMissing(f"Apache RocketMQ ({name}): `{tool}` is not installed")
    told, pom = TARGET / f"{name}.classpath.new", HERE / f"{name}.pom.xml"
    TARGET.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={told}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stdout[-300:])
        raise PeerMissing(f"Apache RocketMQ ({name}): Maven could not fetch its jars: {reason}")
    return [Path(jar) for jar in told.read_text().strip().split(":")]


def compiled_drivers(name: str) -> str:
    """The class path of `<name>` with our Java drivers compiled against it; those in `tools` need Apache's mqadmin.

    Those of the client for gRPC lie in a folder of their own, and those of the version that knows lite topics, too.
    """
    jars = classpath(name)
    out = TARGET / f"{name}-drivers"
    folder = HERE / {"grpc": "grpc_drivers", "grpc520": "lite_drivers"}.get(name, "drivers")
    sources = sorted(folder.glob("**/*.java" if "rocketmq-tools" in jars else "*.java"))
    newest = max(source.stat().st_mtime for source in sources)
    with alone(f"{name}-drivers"):
        if not out.exists() or out.stat().st_mtime < newest:
            aside = TARGET / f"{name}-drivers.new"  # a folder that is half full would pass for compiled
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            command = ["javac", "-nowarn", "-cp", jars, "-d", str(aside), *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode:
                raise RuntimeError(f"the Java drivers do not compile against {name}: {done.stderr}")
            shutil.rmtree(out, ignore_errors=True)
            aside.rename(out)
    return f"{out}:{jars}"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time: tests run in several, and all want the same peers."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_driver(
    main: str,
    *arguments: object,
    peer: str = "server",
    serialize_type: str = "JSON",
    timeout: float = 180,
    heap: str = "256m",
    properties: dict[str, str] | None = None,
    user: tuple[str, str] | None = None,
) -> dict[str, int]:
    """Run a driver to its end; its last line `name=number ...` as a dict. A failing driver raises with its output.

    `user`: name and secret that drivers of plain producers and consumers sign with.
    """
    command = ["java", f"-Xmx{heap}", f"-Drocketmq.serialize.type={serialize_type}"]
    command += [f"-D{key}={value}" for key, value in (properties or {}).items()]
    if user is not None:
        command += [f"-DaccessKey={user[0]}", f"-DsecretKey={user[1]}"]
    command += ["-cp", compiled_drivers(peer), main]
    try:
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        # Without the command line: it holds a class path of 130 jars.
        raise RuntimeError(f"{main} did not end within {timeout:.0f} s; it printed: {error.output!r}") from None
    lines = [line for line in done.stdout.splitlines() if "=" in line]
    if done.returncode or not lines:
        raise RuntimeError(f"{main} failed ({done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return {key: int(value) for key, value in (part.split("=") for part in lines[-1].split())}


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, each with two free below it and one above (brokers open port - 2 and port + 1).

    None of those the kernel gives to connections: a broker that was killed finds its own again.
    """
    found: list[int] = []
    while len(found) < count:
        port = _DRAW.randrange(10_000, 30_000)
        if all(abs(port - other) > 4 for other in found) and all(map(_is_free, range(port - 2, port + 2))):
            found.append(port)
    return found


_DRAW = random.SystemRandom()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ApacheCluster:
    """One Apache name server and one broker on loopback, in a folder of their own."""

    def __init__(
        self,
        root: Path,
        *,
        heap: str = "512m",
        settings: dict[str, object] | None = None,
        peer: str = "server",
        properties: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`peer`: whose jars: `server` is 5.3.3, `server550` 5.5.0. `properties`: of both Java processes.

        `tls`: for servers that take encrypted connections only.
        """
        self.properties = properties or {}
        self._tls = tls
        self.root = root
        self.heap = heap
        self.peer = peer
        self.namesrv_port, self.broker_port, ha_port = free_ports(3)
        self.namesrv = f"127.0.0.1:{self.namesrv_port}"
        self.broker = f"127.0.0.1:{self.broker_port}"
        self.store = root / "store"
        self.settings: dict[str, object] = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "apache-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": self.broker_port,
            "haListenPort": ha_port,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 99,
            **(settings or {}),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def broker_pid(self) -> int:
        return self._processes[1].pid

    def start(self) -> None:
        self.start_namesrv()
        self.start_broker()

    def start_namesrv(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        namesrv_conf = self.root / "namesrv.conf"
        namesrv_conf.write_text(f"listenPort={self.namesrv_port}\n")
        self._launch("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(namesrv_conf), heap="256m")
        wait_for_port(self.namesrv_port, self._processes[-1])

    def start_broker(self) -> None:
        self.launch_broker()
        wait_for_port(self.broker_port, self._processes[-1])
        wait_for_registration(self._open, self.broker_port)

    def start_broker_again(self, **changes: object) -> None:
        """With the broker.conf that it has written itself, as an operator does who makes these changes in it."""
        lines = (self.root / "broker.conf").read_text().splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in changes]
        self._launch_broker("\n".join([*kept, *(f"{key}={value}" for key, value in changes.items()), ""]))
        wait_for_port(self.broker_port, self._processes[-1])

    def launch_broker(self) -> None:
        """Start the process and return at once, for who measures its start."""
        self._launch_broker("".join(f"{key}={value}\n" for key, value in self.settings.items()))

    def _launch_broker(self, conf: str) -> None:
        broker_conf = self.root / "broker.conf"
        broker_conf.write_text(conf)
        self._launch("org.apache.rocketmq.broker.BrokerStartup", "-c", str(broker_conf), heap=self.heap)

    def _open(self) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.namesrv_port), timeout=5)
        return link if self._tls is None else self._tls.wrap_socket(link, server_hostname="127.0.0.1")

    def kill_broker(self) -> None:
        """kill -9."""
        _kill(self._processes.pop())

    def kill(self) -> None:
        """kill -9 for both servers, for who needs the store no more: an orderly end takes half a minute."""
        while self._processes:
            _kill(self._processes.pop())

    def stop_broker(self) -> None:
        _end(self._processes.pop())

    def stop(self) -> None:
        while self._processes:
            _end(self._processes.pop())

    def _launch(self, main: str, *arguments: str, heap: str) -> None:
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=1g", *OPENS]
        command += [f"-D{key}={value}" for key, value in self.properties.items()]
        command += [f"-Duser.home={self.root}", "-cp", classpath(self.peer), main, *arguments]
        log = (self.root / f"{main.rsplit('.', 1)[1]}.log").open("ab")
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.root), "RMQ_PROXY_HOME": str(self.root)}
        with log:
            self._processes.append(
                subprocess.Popen(command, cwd=self.root, stdout=log, stderr=subprocess.STDOUT, env=environment)
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 300) -> None:
    """Return when a process listens on the port; raise if the process ends or the time is up.

    A Java server takes minutes where much else is done.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the process for port {port} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nobody listens on port {port} after {seconds:.0f} s")


def wait_for_registration(open_link: Callable[[], socket.socket], broker_port: int, seconds: float = 30) -> None:
    """Return when the name server at the end of these links knows the broker with this port.

    A broker listens before it has told the name server; clients fail with "no route" in between.
    """
    header = b'{"code":105,"flag":0,"language":"JAVA","opaque":1,"version":479,"extFields":{"topic":"TBW102"}}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with open_link() as link:
            link.sendall(frame)
            if str(broker_port).encode() in link.recv(65536):
                return
        time.sleep(0.05)
    raise RuntimeError(f"the broker on port {broker_port} did not register within {seconds:.0f} s")


@contextmanager
def apache_cluster(root: Path, **options: object) -> Iterator[ApacheCluster]:
    """A running Apache cluster, stopped at the end of the block."""
    cluster = ApacheCluster(root, **options)  # type: ignore[arg-type]
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
