"""A load of pops: messages are sent, popped and acknowledged, some are forgotten, while something goes wrong.

Owns        what was sent, acknowledged in time, and came again all the same.
Must not know   what goes wrong.
"""

from __future__ import annotations

import asyncio
import random

from rocketlake.codec import property_text
from rocketlake.protocol.request_code import RequestCode as Code
from tests.pops import PopClient
from tests.requests import send_header

INVISIBLE_MS = 3000
MARGIN_MS = 1000
"""An acknowledgement that is answered so much before the end of its time counts as one in time."""
FORGOTTEN = 10
"""One in so many messages is not acknowledged the first time."""
QUEUES = 4


class Popping:
    """Sends and pops, and what came of it."""

    def __init__(self, client: PopClient, moments: random.Random, *, works_for: float = 0.0) -> None:
        """`works_for`: seconds, at most, between a pop and the acknowledgements of what it got."""
        self.client = client
        self.works_for = works_for
        self.moments = moments
        self.sent: set[str] = set()
        self.acked: set[str] = set()
        self.late: set[str] = set()
        """Acknowledged, but nobody knows whether in time: they may come again."""
        self.again: list[str] = []
        """Came though acknowledged in time."""
        self.refused = 0
        """Acknowledgements that were refused: those messages come again."""

    async def send(self, prefix: str) -> None:
        """Until the broker dies, or is asked to end."""
        number = 0
        while True:
            body = f"{prefix}-{number}"
            properties = property_text.encode({"UNIQ_KEY": f"KEY{body}"}).decode()
            header = send_header(self.client.topic, number % QUEUES, properties)
            if (await self.client.ask(Code.SEND_MESSAGE_V2, header, body.encode())).code == 0:
                self.sent.add(body)
            number += 1

    async def take(self) -> None:
        """Pop and acknowledge: until the broker dies, or is asked to end."""
        while True:
            await self.take_once()

    async def take_once(self) -> None:
        got = await self.client.pop(INVISIBLE_MS, poll_ms=200, max_msg_nums=8)
        if self.works_for:
            await asyncio.sleep(self.moments.uniform(0, self.works_for))
        for popped in got:
            if popped.body in self.acked:
                self.again.append(popped.body)
            is_first = popped.message.reconsume_times == 0
            if is_first and self.moments.randrange(FORGOTTEN) == 0:
                continue
            was_late = popped.body in self.late
            self.late.add(popped.body)  # the broker may die before it answers: then it may come again, or not
            if (await self.client.ack(popped)).code == 0:
                end_ms = popped.handle.pop_ms + popped.handle.invisible_ms
                in_time = self.client.clock.now_ms() < end_ms - MARGIN_MS
                if in_time:
                    self.acked.add(popped.body)
            else:
                self.refused += 1
                if not was_late:
                    self.late.discard(popped.body)

    @property
    def open(self) -> set[str]:
        return self.sent - self.acked - self.late
