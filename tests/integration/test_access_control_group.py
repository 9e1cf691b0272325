"""A group of brokers and a controller that know users: they sign what they ask of each other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.proof import MARK
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.auto_switch.layout import HANDSHAKE, REPORT
from tests.replica_group import NAMESRV, ReplicaGroup

OK = ResponseCode.SUCCESS
INNER = Credentials("inner", "inner-secret")
USERS = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "inner_credentials": f'{{"accessKey":"{INNER.access_key}","secretKey":"{INNER.secret_key}"}}',
}


class GuardedGroup(ReplicaGroup):
    """Brokers and controller that take signed requests only."""

    def __init__(self) -> None:
        super().__init__(**USERS)
        network = self.net.host("10.0.0.77")
        self.stranger = NetClient(clock=self.clock, network=network)
        self.client = NetClient(clock=self.clock, network=network, sign=signing(lambda: INNER))

    def new_namesrv(self) -> NameServer:
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), enable_controller=True)
        config = replace(config, **USERS)  # type: ignore[arg-type]
        return NameServer(config, clock=self.clock, files=self.namesrv_files, network=self.net.host(NAMESRV))

    async def refusal(self, address: str, code: RequestCode) -> int:
        """The code of the answer to a stranger."""
        asked = asyncio.ensure_future(self.stranger.invoke(address, Command.request(code), 3000))
        await self.clock.run_for(500)
        return (await asked).code


async def test_replicas_copy_and_a_controller_replaces_their_master() -> None:
    group = GuardedGroup()
    await group.start()
    try:
        await group.lose_the_master()
    finally:
        await group.stop()


async def test_a_stranger_that_greets_as_a_replica_gets_no_epoch_and_no_byte_of_the_log() -> None:
    group = GuardedGroup()
    await group.start()
    try:
        assert await group.send(b"secret body") == OK
        said: list[bytes] = []

        class Stranger(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                transport.write(HANDSHAKE.pack(1, 0, 0, 3) + REPORT.pack(2, 0))  # type: ignore[attr-defined]

            def data_received(self, data: bytes) -> None:
                said.append(data)

        await group.net.host("10.0.0.66").connect(Stranger, group.master, 10912)
        await group.clock.run_for(1000)
        assert (b"".join(said)[: len(MARK)], len(b"".join(said))) == (MARK, 48)
        assert await group.send(b"next") == OK
    finally:
        await group.stop()


async def test_a_stranger_is_refused_by_each_server_of_the_group() -> None:
    group = GuardedGroup()
    await group.start()
    try:
        for address, code in (
            (f"{NAMESRV}:9876", RequestCode.REGISTER_BROKER),
            (f"{NAMESRV}:9876", RequestCode.GET_BROKER_CLUSTER_INFO),
            (f"{NAMESRV}:9876", RequestCode.CONTROLLER_ELECT_MASTER),
            (f"{NAMESRV}:9876", RequestCode.CONTROLLER_GET_METADATA_INFO),
            (f"{group.master}:10911", RequestCode.NOTIFY_BROKER_ROLE_CHANGED),
            (f"{group.master}:10911", RequestCode.GET_NEWER_TABLES),
        ):
            assert await group.refusal(address, code) == ResponseCode.NO_PERMISSION, code
    finally:
        await group.stranger.close()
        await group.stop()
