"""A broker alone, and clients on hosts of their own: network and disk in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from typing import Any

from rocketlake.auth.credentials import Credentials
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from tests.replica_pair import MASTER, ReplicaPair
from tests.requests import pull_header

GREEDY, CALM = "10.0.0.66", "10.0.0.70"


class Alone(ReplicaPair):
    """A broker, and clients on hosts of their own."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings
        self.clients: list[NetClient] = []

    async def start(self) -> None:
        self.master = self.new_broker(MASTER, 0, namesrv_addresses=(), **self.settings)
        await self.master.start()
        self.master.topics.put(TopicConfig("T"))

    async def stop(self) -> None:
        for client in [*self.clients, self.client]:
            await client.close()
        await self.master.stop()

    def client_at(self, host: str, credentials: Credentials | None = None) -> NetClient:
        sign = signing(lambda: credentials) if credentials else None
        client = NetClient(clock=self.clock, network=self.net.host(host), sign=sign)
        self.clients.append(client)
        return client

    async def asked(self, client: NetClient, command: Command) -> Command:
        return await self.follow(client.invoke(f"{MASTER}:10911", command, 1e9))

    async def waits(self, client: NetClient, **fields: Any) -> asyncio.Task[Command]:
        """A pull that waits at the end of its queue, or is answered at once."""
        command = Command.request(Code.PULL_MESSAGE, pull_header("T", wait_ms=60_000, **fields))
        task = asyncio.create_task(client.invoke(f"{MASTER}:10911", command, 1e9))
        await self.clock.settle()
        return task
