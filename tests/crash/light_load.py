"""A load on many lite topics, and what must be true of the log when the broker has stopped.

Owns        what was sent and acknowledged, the walk over the chains of a store.
Must not know   what goes wrong.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from rocketlake.base.errors import RocketLakeError
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.lite import Place
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.reader import StoreReader
from tests.lites import PARENT, LiteClient

SENDERS = 32
SAVES_OFTEN = [sys.executable, "-m", "tests.crash.light_saves"]
"""The prefix of a broker that writes the file of its light queues again and again."""


class LightLoad:
    """Senders to `count` lite topics of one broker, over its lives."""

    def __init__(self, address: str, count: int, moments: random.Random) -> None:
        self.lites = [f"l{number}" for number in range(count)]
        self.tried = 0
        self.acked: set[int] = set()
        self.refused: set[str] = set()
        """The reasons that the broker gave."""
        self._address = address
        self._moments = moments

    async def make_parent(self) -> None:
        client = LiteClient(self._address)
        await client.make_parent()
        await client.net.close()

    async def send_to_each(self) -> None:
        """One message to each lite topic. A broker that does not know all of them yet is asked again."""
        left = list(self.lites)

        async def send(client: LiteClient) -> None:
            while left:
                lite = left.pop()
                while not await self._send(client, lite):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

        await self._each(send)

    async def send_until_dead(self) -> None:
        """To any lite topic, until the broker is gone."""

        async def send(client: LiteClient) -> None:
            while True:
                try:
                    if not await self._send(client, self._moments.choice(self.lites)):
                        await asyncio.sleep(0.05)
                except (RocketLakeError, OSError):
                    return

        await self._each(send)

    async def _each(self, send: Callable[[LiteClient], Awaitable[None]]) -> None:
        client = LiteClient(self._address)
        try:
            await asyncio.gather(*(send(client) for _ in range(SENDERS)))
        finally:
            await client.net.close()

    async def _send(self, client: LiteClient, lite: str) -> bool:
        number, self.tried = self.tried, self.tried + 1
        answer = await client.put(lite, str(number))
        if answer.code == ResponseCode.SUCCESS:
            self.acked.add(number)
        else:
            self.refused.add(answer.remark or "")
        return answer.code == ResponseCode.SUCCESS

    def check(self, store: Path) -> None:
        """Each acknowledged message lies in the store once; each lite topic is one chain with dense numbers.

        A lite topic that a start did not know would begin another chain, one that it knew as it was before would have a
        number twice.
        """
        found: set[int] = set()
        newest: dict[str, tuple[int, Place | None]] = {}
        reader = StoreReader(store)
        for queue_id in reader.queue_ids(PARENT):
            for record in reader.records(PARENT, queue_id, *reader.queue_range(PARENT, queue_id)):
                (message,) = decode_records(record)
                body, lite = int(message.body), message.properties[names.LITE_TOPIC]
                assert body < self.tried
                assert body not in found, f"{body} of {lite} lies there twice"
                found.add(body)
                number = int(message.properties[names.INNER_MULTI_QUEUE_OFFSET])
                before = Place.parse(message.properties.get(names.LITE_BEFORE, ""))
                known = newest.get(lite, (number - 1, None))
                assert (number - 1, before) == known, f"{lite} {number} behind {before}, but the one before is {known}"
                newest[lite] = number, Place(queue_id, message.queue_offset)
        reader.close()
        assert self.acked <= found, f"{len(self.acked - found)} are lost"
