"""TLS with Apache's: its Java client on our servers that take encrypted connections only, our client on its."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, apache_cluster, compiled_drivers, free_ports, run_driver
from rocketlake import ClientConfig, Message, Producer, PushConsumer
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import load_broker_conf
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import SETTINGS
from tests.interop.our_cluster import our_cluster
from tests.tls_files import Authority

pytestmark = pytest.mark.interop

PEER = "server550"
COUNT = 2000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def enforcing(apache_jars: None, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our name server; it and our broker take encrypted connections only."""
    settings = ("tlsMode=enforcing", f"tlsConfigFile={authority.file()}")
    with our_cluster(tmp_path_factory.mktemp("rocketlake"), *settings) as namesrv:
        yield namesrv


def java(*arguments: object, **properties: str) -> dict[str, int]:
    return run_driver(*map(str, arguments), peer=PEER, properties={"tls.enable": "true", **properties})


@pytest.mark.smoke
def test_javas_client_sends_and_consumes(enforcing: str) -> None:
    assert java("Produce", enforcing, "Secret", "async", COUNT, 200, "A") == {"sent": COUNT, "failed": 0}
    got = java("Consume", enforcing, "Secret", "secret", "*", "concurrent", COUNT, 60, 0)
    assert (got["distinct"], got["sum"]) == (COUNT, COUNT * (COUNT - 1) // 2)


def test_javas_client_checks_our_certificate(enforcing: str, authority: Authority) -> None:
    file = authority.file("java", {"tls.test.mode.enable": "false", "tls.client.authServer": "true"})
    sent = java("Produce", enforcing, "Checked", "sync", 10, 20_000, "A", **{"tls.config.file": file})
    assert sent == {"sent": 10, "failed": 0}


def test_javas_plain_client_is_sent_away(enforcing: str, authority: Authority) -> None:
    with pytest.raises(RuntimeError, match="Produce failed"):
        run_driver("Produce", enforcing, "Plain", "sync", 1, 10, "A", peer=PEER)


def test_mqadmin_asks_our_servers(enforcing: str, tmp_path: Path) -> None:
    command = ["java", "-Xmx128m", "-Dtls.enable=true", f"-Duser.home={tmp_path}", "-cp", compiled_drivers(PEER)]
    command += ["org.apache.rocketmq.tools.command.MQAdminStartup", "clusterList", "-n", enforcing]
    environment = {**os.environ, "ROCKETMQ_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment, cwd=tmp_path)
    assert "broker-a" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def apache(
    apache_jars: None, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheCluster]:
    """Apache's name server and broker 5.5.0, which take encrypted connections only, also from each other."""
    file = authority.file("apache", {"tls.test.mode.enable": "false", "tls.client.authServer": "true"})
    properties = {"tls.server.mode": "enforcing", "tls.enable": "true", "tls.config.file": file}
    context = ssl.create_default_context(cafile=authority.trusted)
    root = tmp_path_factory.mktemp("apache")
    with apache_cluster(root, peer=PEER, properties=properties, tls=context) as cluster:
        yield cluster


async def round_trip(settings: ClientConfig, topic: str, count: int) -> int:
    """Send so many messages, and consume them; how many different ones came."""
    bodies = {b"%06d" % number * 100 for number in range(count)}
    got: set[bytes] = set()
    done = asyncio.Event()

    def take(messages: list[StoredMessage]) -> None:
        got.update(message.body for message in messages)
        if got == bodies:
            done.set()

    async with Producer("ours", client_config=settings) as producer:
        # All at once, to a Java broker that has just started: on a busy machine the last ones wait long.
        await producer.send(Message(topic, next(iter(bodies))), timeout_ms=30_000)
        await asyncio.gather(*(producer.send(Message(topic, body), timeout_ms=30_000) for body in bodies))
    consumer = PushConsumer(f"group_{topic}", client_config=settings, listener=take, from_where="first")
    consumer.subscribe(topic)
    async with consumer:
        await asyncio.wait_for(done.wait(), 60)
    return len(got)


async def test_our_client_on_apaches_servers(apache: ApacheCluster, authority: Authority) -> None:
    settings = ClientConfig(namesrv=apache.namesrv, tls_config_file=authority.file())
    assert await round_trip(settings, "Encrypted", 1000) == 1000


async def test_our_broker_registers_with_apaches_name_server(
    apache: ApacheCluster, authority: Authority, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    settings = {**SETTINGS, "brokerName": "ours", "brokerClusterName": "Ours", "listenPort": str(port)}
    settings |= {"storePathRootDir": str(tmp_path), "namesrvAddr": apache.namesrv, "brokerIP1": "127.0.0.1"}
    settings |= {"tlsMode": "enforcing", "tlsConfigFile": authority.file()}
    async with Broker(*load_broker_conf(overrides=settings)):
        ours = ClientConfig(namesrv=apache.namesrv, tls_config_file=authority.file())
        assert await round_trip(ours, "Ours", 10) == 10
