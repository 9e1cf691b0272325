"""Encrypted connections on real sockets: who gets in by which mode and certificate, what is said to others."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import TcpNetwork
from rocketlake.net.peer import Peer
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork
from rocketlake.net.tls.settings import TlsChoice, TlsMode
from rocketlake.protocol.command import Command
from tests.tls_files import Authority

ECHO, LARGE = 1, 2
LARGE_BODY = os.urandom(8 << 20)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Echo:
    """A server that answers with what it was sent, and its name for the peer."""

    def __init__(self, mode: TlsMode, file: str = "", limits: NetLimits | None = None) -> None:
        self.certificates = Certificates(TlsChoice(mode, file=file))
        rows = [Row(ECHO, self._echo, ANYBODY), Row(LARGE, lambda _: Reply(0, body=LARGE_BODY), ANYBODY)]
        network = SecureNetwork(TcpNetwork(), self.certificates)
        self.server = Server(Dispatcher(rows), network=network, limits=limits)

    def _echo(self, request: Request) -> Reply:
        peer = request.asker
        assert isinstance(peer, Peer)
        return Reply(0, remark=f"{peer.is_encrypted} {peer.certificate_name}", body=request.body)

    async def ask(self, file: str | None, body: bytes = b"hello", code: int = ECHO) -> Command:
        """By a client with this file of settings; None: by one that does not encrypt."""
        choice = TlsChoice() if file is None else TlsChoice(use_tls=True, file=file)
        async with NetClient(network=SecureNetwork(TcpNetwork(), Certificates(choice))) as client:
            return await client.invoke(self.server.address, Command.request(code, body=body), 10_000)


@asynccontextmanager
async def serving(mode: TlsMode, file: str = "", limits: NetLimits | None = None) -> AsyncIterator[Echo]:
    echo = Echo(mode, file, limits)
    await echo.server.start()
    try:
        yield echo
    finally:
        await echo.server.stop(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_permissive_takes_both_on_one_port(authority: Authority) -> None:
    async with serving(TlsMode.permissive, authority.file()) as echo:
        plain, encrypted = await asyncio.gather(echo.ask(None), echo.ask(authority.file()))
        assert (plain.remark, encrypted.remark) == ("False ", "True ")
        assert bytes(plain.body) == bytes(encrypted.body) == b"hello"


def test_the_loop_of_servers_takes_both_too(authority: Authority) -> None:
    async def both() -> None:
        await test_permissive_takes_both_on_one_port(authority)
        await test_large_bodies_go_both_ways(authority)

    uvloop.run(both())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_are_spoken(authority: Authority, version: ssl.TLSVersion) -> None:
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        assert echo.certificates.server is not None
        echo.certificates.server.maximum_version = version
        assert (await echo.ask(authority.file())).remark == "True "


async def test_an_old_version_is_not(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=authority.trusted)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")  # of TLS 1.2, without forward secrecy
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            await asyncio.open_connection("127.0.0.1", echo.server.port, ssl=context)


async def test_enforcing_sends_a_plain_client_away_and_says_why_once(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        for _ in range(3):
            with pytest.raises(LinkError, match="closed"):
                await echo.ask(None)
        await until(lambda: not echo.server.links)
        assert (await echo.ask(authority.file())).remark == "True "
    said = [record.message for record in caplog.records if "tlsMode=enforcing" in record.message]
    assert len(said) == 1
    assert "useTLS=true" in said[0] and "-Dtls.enable=true" in said[0]


@pytest.mark.parametrize("mode", [TlsMode.disabled, TlsMode.permissive], ids=lambda mode: mode.name)
async def test_without_a_certificate_or_the_will_an_encrypting_client_is_sent_away(
    authority: Authority, mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(mode, authority.file() if mode is TlsMode.disabled else "") as echo:
        with pytest.raises(LinkError, match=r"closed during the TLS handshake.*useTLS=false"):
            await echo.ask(authority.file())
        await until(lambda: not echo.server.links)
        assert (await echo.ask(None)).remark == "False "
    cure = "tlsMode=permissive" if mode is TlsMode.disabled else "tls.server.certPath"
    assert [cure in record.message for record in caplog.records if "it encrypts" in record.message] == [True]


async def test_a_client_does_not_trust_another_authority(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path)
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        with pytest.raises(LinkError, match=r"unable to get local issuer.*tls.client.trustCertPath"):
            await echo.ask(stranger.file())
        await until(lambda: any("does not trust this server's certificate" in each for each in caplog.messages))
        assert (await echo.ask(stranger.file("blind", {"tls.client.authServer": "false"}))).remark == "True "
    assert any("servers are not checked" in each for each in caplog.messages)


async def test_a_server_must_have_the_name_of_its_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue_server("brokers.internal")
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        with pytest.raises(LinkError, match=r"tls.client.serverName"):
            await echo.ask(authority.file())
        named = authority.file("named", {"tls.client.serverName": "brokers.internal"})
        assert (await echo.ask(named)).remark == "True "


async def test_a_client_is_known_by_its_certificate(authority: Authority) -> None:
    alice = authority.file("alice", authority.issue_client("alice"))
    async with serving(TlsMode.permissive, authority.file("optional", authority.asking_clients("optional"))) as echo:
        assert (await echo.ask(alice)).remark == "True alice"
        assert (await echo.ask(authority.file())).remark == "True "
        assert (await echo.ask(None)).remark == "False "


async def test_a_client_without_a_certificate_that_is_asked_for(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path)
    theirs = authority.file("theirs", stranger.issue_client("alice"))
    async with serving(TlsMode.enforcing, authority.file("require", authority.asking_clients())) as echo:
        assert (await echo.ask(authority.file("bob", authority.issue_client("bob")))).remark == "True bob"
        with pytest.raises(LinkError, match=r"certificate required|closed"):
            await echo.ask(authority.file())
        await until(lambda: any("it shows no certificate" in each for each in caplog.messages))
        with pytest.raises(LinkError, match=r"unknown ca|closed"):
            await echo.ask(theirs)


@pytest.mark.parametrize(
    "junk",
    [b"\x16", b"\x16\x03\x01\x00\xff" + bytes(300), b"\x16" + bytes(range(256)) * 20],
    ids=["one byte", "lies", "noise"],
)
async def test_garbage_and_half_a_handshake_end_the_connection(authority: Authority, junk: bytes) -> None:
    limits = NetLimits(handshake_seconds=0.0, connections=3)
    async with serving(TlsMode.permissive, authority.file(), limits) as echo:
        _, writer = await asyncio.open_connection("127.0.0.1", echo.server.port)
        writer.write(junk)
        await until(lambda: bool(echo.server.links))

        def is_over() -> bool:
            echo.server.sweep()
            return not echo.server.links

        await until(is_over)
        writer.close()
        assert (await echo.ask(authority.file())).remark == "True "


async def test_half_a_handshake_takes_the_place_of_a_connection(authority: Authority) -> None:
    async with serving(TlsMode.permissive, authority.file(), NetLimits(connections=2)) as echo:
        halves = [await asyncio.open_connection("127.0.0.1", echo.server.port) for _ in range(2)]
        for _, writer in halves:
            writer.write(b"\x16\x03\x01")
        await until(lambda: len(echo.server.links) == 2)
        with pytest.raises(LinkError):
            await echo.ask(authority.file())
        for _, writer in halves:
            writer.close()
        await until(lambda: not echo.server.links)
        assert (await echo.ask(authority.file())).remark == "True "


async def test_large_bodies_go_both_ways(authority: Authority) -> None:
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        body = os.urandom(3 << 20)
        assert bytes((await echo.ask(authority.file(), body)).body) == body
        assert bytes((await echo.ask(authority.file(), code=LARGE)).body) == LARGE_BODY


async def test_a_peer_that_does_not_read_holds_back_what_it_asks_for(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=authority.trusted)
    async with serving(TlsMode.enforcing, authority.file()) as echo:
        _, writer = await asyncio.open_connection("127.0.0.1", echo.server.port, ssl=context)
        from rocketlake.protocol.connection import Connection

        machine = Connection()
        for _ in range(50):  # 400 MiB, if all of it were answered at once
            writer.writelines(machine.send(Command.request(LARGE)))
        await until(lambda: bool(echo.server.links) and not next(iter(echo.server.links)).writable)
        link = next(iter(echo.server.links))
        assert isinstance(link, Peer) and link.unfinished > 0
        await asyncio.sleep(0)
        waiting = link._transport.get_write_buffer_size()  # type: ignore[attr-defined]
        assert waiting < 2 * len(LARGE_BODY)
        writer.transport.abort()
        await until(lambda: not echo.server.links)


async def test_new_certificates_are_read_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, successor = Authority(tmp_path / "one"), Authority(tmp_path / "two")
    file = authority.file()
    trusts_both = tmp_path / "both.pem"
    trusts_both.write_text(authority.trusted.read_text() + successor.trusted.read_text())
    async with serving(TlsMode.enforcing, file) as echo:
        only_new = successor.file()
        with pytest.raises(LinkError):
            await echo.ask(only_new)
        authority.certificate.write_text("no certificate")
        echo.certificates.look()
        assert not echo.certificates.health.is_green
        assert str(authority.certificate) in next(iter(echo.certificates.health.troubles.values())).reason
        assert (await echo.ask(authority.file("again"))).remark == "True "
        authority.certificate.write_text(successor.certificate.read_text())
        authority.key.write_text(successor.key.read_text())
        echo.certificates.look()
        assert echo.certificates.health.is_green
        assert (await echo.ask(only_new)).remark == "True "


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("tls.server.certPath", "missing.pem", "certPath names a file that cannot be read"),
        ("tls.server.keyPath", "ca.pem", "tls.server.keyPath name a PEM certificate and its own key"),
        ("tls.client.trustCertPath", "server.key", "tls.client.trustCertPath name a file of PEM certificates"),
        ("tls.server.keyPath", "", "only one is set"),
        ("tls.server.need.client.auth", "require", "tls.server.authClient=true"),
        ("tls.test.mode.enable", "true", "set it to false"),
        ("tls.server.certpath", "x", "did you mean tls.server.certPath"),
    ],
)
def test_a_bad_file_is_named_with_a_cure(authority: Authority, setting: str, value: str, complaint: str) -> None:
    named = str(authority.folder / value) if "." in value else value
    file = authority.file("bad", {setting: named})
    with pytest.raises(UsageError, match=complaint) as found:
        Certificates(TlsChoice(TlsMode.permissive, use_tls=True, file=file))
    assert found.value.where and found.value.hint


def test_enforcing_needs_a_certificate(tmp_path: Path) -> None:
    empty = tmp_path / "empty.properties"
    empty.touch()
    with pytest.raises(UsageError, match=r"tlsMode = enforcing needs a certificate.*tls\.server\.certPath"):
        Certificates(TlsChoice(TlsMode.enforcing, file=str(empty)))


def test_an_encrypted_key_is_opened_by_its_password(authority: Authority, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(authority.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    settings = {"tls.server.keyPath": str(locked)}
    with pytest.raises(UsageError, match=r"tls\.server\.keyPassword"):
        Certificates(TlsChoice(TlsMode.permissive, file=authority.file("locked", settings)))
    opened = authority.file("opened", {**settings, "tls.server.keyPassword": "secret"})
    assert Certificates(TlsChoice(TlsMode.permissive, file=opened)).server is not None


def test_a_key_that_all_may_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    authority.key.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        Certificates(TlsChoice(TlsMode.permissive, file=authority.file()))
    assert any(str(authority.key) in each and "chmod 600" in each for each in caplog.messages)
