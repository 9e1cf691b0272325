"""A cluster that takes encrypted connections only: clients, commands, replicas and the controller reach it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rocketlake import ClientConfig, Message, Producer, PushConsumer
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.cli.tree import app
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryTransport
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork
from rocketlake.net.tls.settings import TlsChoice, TlsMode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from rocketlake.testing.cluster import EmbeddedCluster
from tests.replica_group import NAMESRV, ReplicaGroup
from tests.replica_pair import MASTER, SLAVE, ReplicaPair
from tests.tls_files import Authority

OK = ResponseCode.SUCCESS
CLIENT = "10.0.0.77"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    hosts = [NAMESRV, MASTER, SLAVE, *(f"10.0.0.{11 + number}" for number in range(3))]
    return Authority(tmp_path_factory.mktemp("authority"), *hosts)


@pytest.fixture(scope="module")
def cluster(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    settings = {"tlsMode": "enforcing", "tlsConfigFile": authority.file()}
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), settings=settings) as cluster:
        yield cluster


async def test_a_producer_and_a_consumer(cluster: EmbeddedCluster, authority: Authority) -> None:
    settings = ClientConfig(namesrv=cluster.namesrv, tls_config_file=authority.file())
    bodies = {b"%d" % number for number in range(500)}
    got: set[bytes] = set()
    done = asyncio.Event()

    def take(messages: list[StoredMessage]) -> None:
        got.update(message.body for message in messages)
        if got == bodies:
            done.set()

    consumer = PushConsumer("secret", client_config=settings, listener=take, from_where="first")
    consumer.subscribe("Secret")
    async with Producer("ours", client_config=settings) as producer:
        await asyncio.gather(*(producer.send(Message("Secret", body), timeout_ms=30_000) for body in bodies))
        async with consumer:
            await asyncio.wait_for(done.wait(), 30)
    assert got == bodies


async def test_a_plain_client_hears_that_the_connection_was_closed(cluster: EmbeddedCluster) -> None:
    async with Producer("plain", client_config=ClientConfig(namesrv=cluster.namesrv)) as producer:
        with pytest.raises(LinkError, match="closed"):
            await producer.send(Message("Secret", b"x"))


def test_certificates_that_cannot_be_used_are_named_when_the_client_is_made(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.properties")
    with pytest.raises(UsageError, match=missing):
        Producer("ours", client_config=ClientConfig(tls_config_file=missing))


def test_the_command_line_by_option_and_by_variable(
    cluster: EmbeddedCluster, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETLAKE_TLS_CONFIG", "")
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    plain = CliRunner().invoke(app, ["topic", "list"])
    assert isinstance(plain.exception, LinkError)
    words = ["--tls-config", authority.file(), "topic", "create", "Typed"]
    assert CliRunner().invoke(app, words).exit_code == 0
    monkeypatch.setenv("ROCKETLAKE_TLS_CONFIG", authority.file())
    assert CliRunner().invoke(app, ["produce", "Typed", "hello"]).exit_code == 0
    assert "hello" in CliRunner().invoke(app, ["consume", "Typed", "--from", "earliest", "--count", "1"]).stdout


class EncryptedGroup(ReplicaGroup):
    """Brokers and controller that take encrypted connections only."""

    def __init__(self, file: str) -> None:
        self.choice = TlsChoice(TlsMode.enforcing, file=file)
        super().__init__(tls_mode=TlsMode.enforcing, tls_config_file=file)
        network = SecureNetwork(self.net.host(CLIENT), Certificates(self.choice, self.clock))
        self.client = NetClient(clock=self.clock, network=network)

    def new_namesrv(self) -> NameServer:
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), enable_controller=True)
        config = replace(config, tls_mode=self.choice.mode, tls_config_file=self.choice.file)
        return NameServer(config, clock=self.clock, files=self.namesrv_files, network=self.net.host(NAMESRV))


async def test_replicas_copy_and_a_controller_replaces_their_master(authority: Authority) -> None:
    group = EncryptedGroup(authority.file())
    await group.start()
    try:
        await group.lose_the_master()
    finally:
        await group.stop()


class EncryptedPair(ReplicaPair):
    """A master and a slave without a controller; their name server takes plain connections, too."""

    def __init__(self, file: str, **settings: Any) -> None:
        super().__init__(tls_mode=TlsMode.enforcing, tls_config_file=file, **settings)
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), tls_config_file=file)
        self.namesrv = NameServer(config, clock=self.clock, files=MemoryFiles(), network=self.net.host(NAMESRV))

    def copied(self) -> int:
        """Messages of T that the slave has; the master has them all."""
        return self.slave.store.next_offset("T", 0)

    def put(self, count: int) -> None:
        self.master.topics.put(TopicConfig("T"))
        for _ in range(count):
            assert self.master.store.put(PutMessage("T", 0, b"x" * 1000)).status.is_stored


async def test_a_slave_copies_over_an_encrypted_stream_and_a_plain_one_is_told_why_not(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = EncryptedPair(authority.file())
    await pair.start()
    try:
        pair.put(200)
        await pair.clock.run_for(2000)
        assert pair.copied() == 200
        await pair.slave.stop()
        pair.slave = pair.new_broker(SLAVE, 1, ha_use_tls=False)
        await pair.slave.start()
        await pair.clock.run_for(15_000)
        assert pair.copied() == 0
        assert not pair.slave.health.is_green
        assert any(SLAVE in each and "tlsMode=enforcing" in each for each in caplog.messages)
    finally:
        await pair.stop()


async def test_the_stream_alone_may_be_plain(authority: Authority) -> None:
    pair = EncryptedPair(authority.file(), ha_use_tls=False)
    seen: list[bytes] = []
    receive = MemoryTransport.receive

    def look(transport: MemoryTransport, data: bytes) -> None:
        seen.append(data)
        receive(transport, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTransport, "receive", look)
        await pair.start()
        try:
            pair.put(20)
            await pair.clock.run_for(2000)
            assert pair.copied() == 20
        finally:
            await pair.stop()
    # The records are seen on the way, and nothing of what brokers and name servers say to each other.
    plain = [data for data in seen if b"x" * 1000 in data]
    assert plain and not [data for data in seen if b"brokerName" in data]


async def test_a_broker_looks_at_its_certificates_and_is_red_while_they_are_bad(tmp_path: Path) -> None:
    authority = Authority(tmp_path, NAMESRV, MASTER, SLAVE)
    pair = EncryptedPair(authority.file())
    await pair.start()
    try:
        good = authority.certificate.read_text()
        authority.certificate.write_text("")
        await pair.clock.run_for(6000)
        assert str(authority.certificate) in pair.master.health.troubles["net/certificates"].reason
        pair.put(10)
        await pair.clock.run_for(2000)
        assert pair.copied() == 10
        authority.certificate.write_text(good)
        await pair.clock.run_for(6000)
        assert pair.master.health.is_green and pair.namesrv.health.is_green
    finally:
        await pair.stop()
