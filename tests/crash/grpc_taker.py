"""Owns a consumer of the gRPC port as a process: `python -m tests.crash.grpc_taker PORT SEED`, until it is killed.

It prints a line before and behind each call, so that the killer knows what was under way: `asking`, then for each
message `got` or `again`, and `renewing`, `renewed`, `putting`, `put`, `acking`, `acked`; `failed` or `late` where an
answer does not count. Behind the word stands the message's name.
Must not know   who is killed, what must hold.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from rocketlake.proxy.convert.times import duration
from rocketlake.proxy.v2 import messages as v2
from tests.grpc_client import GrpcClient
from tests.http2_peer import Peer

TOPIC, GROUP = "Taken", "takers"
INVISIBLE_SECONDS = 10.0
"""What a receive of GrpcClient asks for: the least that a proxy takes."""
MARGIN_SECONDS = 2.0
"""An answer that comes so much before the end of the invisible time counts as one in time."""


def say(word: str, name: str = "-") -> None:
    os.write(1, f"{word} {name}\n".encode())


class Taker:
    """One connection."""

    def __init__(self, client: GrpcClient, moments: random.Random) -> None:
        self._client = client
        self._moments = moments

    async def run(self) -> None:
        """Until the connection ends."""
        while True:
            say("asking")
            since = time.monotonic()
            for message in await self._client.receive(TOPIC, GROUP, 5):
                await self._take(message, since)

    async def _take(self, message: Any, since: float) -> None:
        """Forget it, put it back for a second, or acknowledge it, some of them behind a renewal."""
        name, system = message.body.decode(), message.system_properties
        is_first = system.delivery_attempt == 1
        say("got" if is_first else "again", name)
        chance = self._moments.random()
        if chance < 0.05 and is_first:
            return
        if chance < 0.2 and system.delivery_attempt <= 2:
            await self._change("putting", "put", message, 1.0, since)
            return
        if chance < 0.4:
            began = time.monotonic()
            if not await self._change("renewing", "renewed", message, INVISIBLE_SECONDS, since):
                return  # the broker takes a renewal that comes late, too, and hands the message out again
            since = began
        say("acking", name)
        answer = await self._client.ack(TOPIC, GROUP, message)
        self._end("acked", name, is_done=answer.status.code == v2.Code.OK, since=since)

    async def _change(self, before: str, behind: str, message: Any, seconds: float, since: float) -> bool:
        """Make it visible so much later."""
        name = message.body.decode()
        say(before, name)
        system = message.system_properties
        answer = await self._client.call(
            "ChangeInvisibleDuration",
            v2.ChangeInvisibleDurationRequest(
                group=v2.Resource(name=GROUP),
                topic=v2.Resource(name=TOPIC),
                receipt_handle=system.receipt_handle,
                invisible_duration=duration(int(seconds * 1000)),
                message_id=system.message_id,
            ),
        )
        system.receipt_handle = answer.receipt_handle
        return self._end(behind, name, is_done=answer.status.code == v2.Code.OK, since=since)

    @staticmethod
    def _end(word: str, name: str, *, is_done: bool, since: float) -> bool:
        is_in_time = time.monotonic() - since < INVISIBLE_SECONDS - MARGIN_SECONDS
        say(word if is_done and is_in_time else "late" if is_done else "failed", name)
        return is_done and is_in_time


async def main(port: int, seed: int) -> None:
    """Connect again and again."""
    moments = random.Random(seed)
    while True:
        try:
            async with await Peer.connect(port) as peer:
                await Taker(GrpcClient(peer, f"taker-{os.getpid()}"), moments).run()
        except (OSError, AssertionError):  # GrpcClient asserts that its connection does not end
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
