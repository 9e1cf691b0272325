"""Apache's Java client for gRPC on a broker that serves it: ours, and Apache 5.5.0 with the broker inside of its proxy.

Each side is one process with a broker and a proxy. CPU is that of this process for each message.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

from bench import wire
from bench.brokers import Apache, RocketLake
from bench.java import HEAP
from bench.loads.backlog import fill
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.program import Program
from bench.window import Window, started_values
from interop.apache import compiled_drivers, free_ports
from interop.apache_proxy import ApacheWithProxy

TOPIC, GROUP, QUEUES = "GrpcLoad", "bench_grpc", 8
THREADS = 64
RECEIVING_THREADS = 16
BACKLOG = 900_000
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200


class GrpcApache(Apache):
    """The proxy in local mode: one process."""

    def __init__(self, root: Path) -> None:
        self._cluster = cluster = ApacheWithProxy(root, heap="1g")
        self.namesrv, self.broker, self.store = cluster.namesrv, cluster.broker, cluster.store
        self.endpoint = cluster.endpoint


class GrpcRocketLake(RocketLake):
    """`grpcServerPort`."""

    def __init__(self, root: Path) -> None:
        (port,) = free_ports(1)
        super().__init__(root, {"grpcServerPort": port})
        self.endpoint = f"127.0.0.1:{port}"


def _side(kind: SideKind, root: Path) -> GrpcApache | GrpcRocketLake:
    return GrpcRocketLake(root) if issubclass(kind, RocketLake) else GrpcApache(root)


def _create_group(broker: str) -> None:
    """Apache's proxy gives consumers of a group that it does not know no settings, and they do not start."""
    with wire.connect(broker) as link:
        link.sendall(wire.frame(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": GROUP}).encode()))
        header, _body = wire.receive_frame(link)
    if header["code"]:
        raise RuntimeError(f"{broker} makes no group: {header}")


def _client(side: GrpcApache | GrpcRocketLake, what: str, threads: int, *more: object) -> Program:
    command = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", compiled_drivers("grpc"), "GrpcLoad"]
    return Program("GrpcLoad", [*command, what, side.endpoint, TOPIC, str(threads), *map(str, more)])


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier, *, receives: bool) -> Values:
    with _side(kind, root) as side:
        values = started_values(side)
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
        if receives:
            _create_group(side.broker)
            values["fill_seconds"] = fill(side, min(BACKLOG, plan.backlog_messages), TOPIC)
        words = ("receive", RECEIVING_THREADS, GROUP) if receives else ("send", THREADS, 1024)
        with _client(side, *words) as client:
            _wait_for(client, 100)
            say(f"{kind.name}: warming up {plan.warm:.0f} s, then measuring {plan.seconds:.0f} s")
            time.sleep(plan.warm)
            start = client.latest().counters
            window = Window(side, client)
            time.sleep(plan.seconds)
            end = client.latest().counters
            values |= window.close(end["done"] - start["done"])
            values["failed"] = float(end["failed"] - start["failed"])
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


def _wait_for(client: Program, count: int) -> None:
    lines = 0
    while client.latest().counters["done"] < count:
        lines = client.wait_for_line(lines, 60)


def load(name: str, title: str, must: float, aim: float, *, receives: bool) -> Load:
    figures = (
        Figure("messages_per_second", "messages/s", must, aim),
        Figure("broker_cpu_us", "CPU of broker and proxy, us/message", 0.4, 0.2, "lower"),
        Figure("client_cpu_us", "client CPU, us/message", better="lower"),
        Figure("after_mb", "memory behind, MB", better="lower"),
    )
    return Load(name, title, figures, partial(run, receives=receives))


LOADS = (
    load("grpc-send-64", f"gRPC sends, {THREADS} threads, 1 KiB", 1.5, 2, receives=False),
    load("grpc-receive", f"gRPC receive and ack, {RECEIVING_THREADS} threads, 1 KiB", 1, 2, receives=True),
)
