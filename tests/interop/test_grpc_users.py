"""Apache's Java and Python clients for gRPC, encrypted and signed, on a broker that knows what each user may do.

Node, Go and Rust: grpc_matrix.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.apache import free_ports, run_driver
from rocketlake import ClientConfig
from rocketlake.admin.sync import Admin
from rocketlake.auth.credentials import Credentials
from tests.interop.our_cluster import guarded_cluster

pytestmark = pytest.mark.interop

ROOT, WRITER, READER = ("root", "secret of root"), ("writer", "secret-w"), ("reader", "secret-r")
COUNT = 20
User = tuple[str, str]


@dataclass(frozen=True)
class Guarded:
    """A cluster that asks who its clients are."""

    endpoint: str
    """Of gRPC, encrypted."""
    trusted: Path
    """The certificate of who has signed the broker's."""
    admin: Admin
    """One who may do everything."""


@dataclass(frozen=True)
class Peer:
    """One client. Both calls raise RuntimeError when it fails: what it says then mostly hides what the broker said."""

    send: Callable[[Guarded, str, User], int]
    """(cluster, topic, user) -> messages that were sent, of COUNT."""
    receive: Callable[[Guarded, str, User], int]
    """The same -> messages that were received and acknowledged."""


def java_send(guarded: Guarded, topic: str, user: User) -> int:
    return _java("send", guarded.endpoint, topic, COUNT, 100, 2, 0, user=user)["sent"]


def java_receive(guarded: Guarded, topic: str, user: User) -> int:
    return _java("simple", guarded.endpoint, topic, "takers", COUNT, 0, user=user)["distinct"]


def _java(*words: object, user: User) -> dict[str, int]:
    return run_driver("Grpc", *words, peer="grpc", timeout=150, user=user, properties={"ssl": "true"})


def python_send(guarded: Guarded, topic: str, user: User) -> int:
    messages = json.dumps([{"body": str(number)} for number in range(COUNT)])
    return len(_python("send", guarded, user, topic, messages))


def python_receive(guarded: Guarded, topic: str, user: User) -> int:
    return len(_python("receive", guarded, user, topic, "takers", str(COUNT), "ack"))


def _python(what: str, guarded: Guarded, user: User, *words: str) -> list[str]:
    command = [sys.executable, "-m", "interop.grpc_python", what, guarded.endpoint, ":".join(user), "tls", *words]
    environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(guarded.trusted)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    refused = [line for line in lines if "refused" in line]
    if done.returncode or refused:
        raise RuntimeError("\n".join(refused) + done.stderr[-3000:])
    return lines


PEERS = {"java": Peer(java_send, java_receive), "python": Peer(python_send, python_receive)}


@pytest.fixture(scope="module")
def guarded(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    (port,) = free_ports(1)
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), port, ROOT) as (namesrv, authority):
        signed = ClientConfig(credentials=Credentials(*ROOT))
        with Admin(namesrv=namesrv, client_config=signed) as admin:
            for name, secret in (WRITER, READER):
                admin.create_user(name, password=secret)
            yield Guarded(f"127.0.0.1:{port}", authority.trusted, admin)


@pytest.mark.parametrize("language", PEERS)
def test_each_user_does_what_it_may_and_nothing_else(guarded: Guarded, language: str) -> None:
    peer, topic, admin = PEERS[language], f"Secret_{language}", guarded.admin
    admin.create_topic(topic, queues=1)
    admin.allow(WRITER[0], ["Pub"], f"Topic:{topic}")
    admin.allow(READER[0], ["Sub"], f"Topic:{topic}")
    admin.allow(READER[0], ["Sub"], "Group:takers")

    for stranger in ((WRITER[0], "wrong"), READER):
        with pytest.raises(RuntimeError):
            peer.send(guarded, topic, stranger)
    assert peer.send(guarded, topic, WRITER) == COUNT
    assert admin.topic_ends(topic)[1] == COUNT, "nothing of the others was stored"
    assert peer.receive(guarded, topic, READER) == COUNT
