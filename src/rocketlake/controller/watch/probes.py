"""Questions to brokers: does anything listen there, how long is your log?

Owns        the connection that is opened and closed, the question for the newest epoch and the end of the log, the
            times for both.
Must not know   what follows from the answers, which brokers are asked.

Only addresses that brokers have registered are asked: a heartbeat cannot send this controller to another place.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import Enum
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.service import Service
from rocketlake.controller.questions import Heard
from rocketlake.net.client import NetClient
from rocketlake.net.link_pool import split_address
from rocketlake.net.network import ConnectionIsRefused, Network
from rocketlake.protocol.bodies.replicas import EpochCache
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Door", "Probes"]

PROBE_SECONDS: Final = 0.3


class Door(Enum):
    """What a machine does with a new connection."""

    OPEN = "it is accepted: by the broker, or by the kernel for a broker that hangs"
    REFUSED = "nothing listens"
    NO_ANSWER = "nothing comes back"


class Probes(Service):
    """Asks brokers."""

    def __init__(self, client: NetClient, network: Network, clock: Clock) -> None:
        super().__init__("probes", clock)
        self._client = client
        self._network = network

    async def knock(self, address: str) -> Door:
        """Open a connection and close it."""
        try:
            host, port = split_address(address)
        except RocketLakeError:
            return Door.NO_ANSWER
        door = self.spawn(f"knock {address}", self._knock(host, port))
        if not await self._clock.wait(door, PROBE_SECONDS):
            door.cancel()
            return Door.NO_ANSWER
        return Door.NO_ANSWER if door.cancelled() else door.result()

    async def log_of(self, address: str, known: Heard) -> Heard | None:
        """The broker's newest epoch and the end of its log; None if it does not answer. `known`: its last heartbeat."""
        try:
            answer = await self._client.invoke(
                address, Command.request(RequestCode.GET_BROKER_EPOCH_CACHE), PROBE_SECONDS * 1000
            )
            if answer.code != ResponseCode.SUCCESS:
                return known  # it lives, and cannot tell: what it said last holds
            cache = EpochCache.decode(answer.body_bytes)
        except RocketLakeError:
            return None
        # An epoch without a byte says nothing of what the log has.
        epoch = max((each.epoch for each in cache.epochs if each.start_offset < cache.max_offset), default=-1)
        return replace(known, epoch=epoch, end_offset=cache.max_offset)

    async def _knock(self, host: str, port: int) -> Door:
        try:
            await self._network.connect(_Guest, host, port)
        except ConnectionIsRefused:
            return Door.REFUSED
        except RocketLakeError:
            return Door.NO_ANSWER
        return Door.OPEN


class _Guest(asyncio.Protocol):
    """A connection that is closed as soon as it is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
