"""The gRPC port of a broker with users, and with certificates: its rules are those of the broker's own port."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.user import User
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.cli.tree import app
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.config import ProxyConfig, proxy_of
from rocketlake.proxy.proxy import Proxy
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import GrpcClient, client_of
from tests.http2_peer import Peer
from tests.tls_files import Authority

ROOT = ("root", "secret of root")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Proxy, tuple[str, str]]]:
    settings = {
        "grpcServerPort": 0,
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    }
    cluster = Standalone(tmp_path / "cluster", settings=settings)
    async with WithProxy(cluster, lambda: cluster.broker) as server:
        for topic in ("T", "Wages"):
            await rocketlake(cluster, "topic", "create", topic)
        shown = await rocketlake(cluster, "acl", "add", "alice")
        await rocketlake(cluster, "acl", "allow", "alice", "Pub", "Topic:T")
        assert server.proxy is not None
        yield server.proxy, ("alice", shown.rpartition("secretKey: ")[2].strip())


async def rocketlake(cluster: Standalone, *words: str) -> str:
    """What a command prints, as the first user."""
    environment = {"ROCKETMQ_ACCESS_KEY": ROOT[0], "ROCKETMQ_SECRET_KEY": ROOT[1]}
    command = [*words, "-n", cluster.namesrv_address]
    done = await asyncio.to_thread(CliRunner().invoke, app, command, env=environment)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("user", [None, ("alice", "wrong"), ("nobody", "secret of nobody")])
async def test_who_does_not_sign_as_a_known_user_does_nothing(
    guarded: tuple[Proxy, tuple[str, str]], user: tuple[str, str] | None
) -> None:
    async with client_of(guarded[0], user=user) as client:
        assert (await client.send("T")).status.code == v2.Code.UNAUTHORIZED
        route = v2.QueryRouteRequest(topic=v2.Resource(name="T"))
        assert (await client.call("QueryRoute", route)).status.code == v2.Code.UNAUTHORIZED


async def test_a_user_may_what_its_policies_allow(guarded: tuple[Proxy, tuple[str, str]]) -> None:
    proxy, alice = guarded
    async with client_of(proxy, user=alice) as client:
        assert (await client.send("T")).status.code == v2.Code.OK
        refused = (await client.send("Wages")).status
        assert (refused.code, "Topic:Wages" in refused.message) == (v2.Code.UNAUTHORIZED, True)
        begun = await client.begin("ReceiveMessage", client.receiving("T", "g"))
        assert [each.status.code for each in await client.end("ReceiveMessage", begun)] == [v2.Code.UNAUTHORIZED]
    async with client_of(proxy, user=ROOT) as client:
        assert [each.body for each in await client.receive("T", "g")] == [b"body"]


async def test_an_encrypted_connection_speaks_h2(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    settings = {"grpcServerPort": 0, "tlsMode": "enforcing", "tlsConfigFile": authority.file()}
    cluster = Standalone(tmp_path / "cluster", settings=settings)
    async with WithProxy(cluster, lambda: cluster.broker) as server:
        assert server.proxy is not None
        trusting = ssl.create_default_context(cafile=str(authority.trusted))
        trusting.set_alpn_protocols(["h2"])
        async with await Peer.connect(server.proxy.server.port, tls=trusting) as peer:
            assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            answer = await GrpcClient(peer, "client").send("None")
            assert answer.status.code == v2.Code.TOPIC_NOT_FOUND
        async with await Peer.connect(server.proxy.server.port) as plain:
            plain.ask("/any", b"")
            await plain.closed()
            assert plain.answers[1].headers == {}


async def test_a_proxy_alone_hears_of_users_that_another_process_adds(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    async with Standalone(tmp_path / "cluster") as cluster:
        config = ProxyConfig(
            grpc_port=0,
            namesrv_addresses=(cluster.namesrv_address,),
            authentication_enabled=True,
            accounts_path=str(path),
            first_user=json.dumps({"username": ROOT[0], "password": ROOT[1]}),
        )
        alice = User("alice", "secret of alice")
        async with proxy_of(config) as proxy, client_of(proxy, user=(alice.name, alice.password)) as client:
            assert (await client.send("None")).status.code == v2.Code.UNAUTHORIZED
            file = AccountFile(path, PosixFiles())
            file.load()
            file.accounts.replace({**file.accounts.users, alice.name: alice}, file.accounts.acls)
            file.save()
            async with asyncio.timeout(30):
                while (await client.send("None")).status.code == v2.Code.UNAUTHORIZED:  # noqa: ASYNC110 - a file is watched
                    await asyncio.sleep(0.1)
