"""Pops in a group whose master dies at any step: what was acknowledged in time never comes again, nothing is lost.

Each seed is one history: sends, pops, acknowledgements, other times, and one death of the master while a request is on
its way to it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from rocketlake.base.errors import RocketLakeError
from rocketlake.protocol.request_code import RequestCode as Code
from tests.pops import PopClient, Popped
from tests.replica_group import ReplicaGroup
from tests.requests import send_header
from tests.seeds import seeds

_STEPS = 40
_INVISIBLE_MS = 6000


class Failover:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"pop failover {seed}")
        self.group = ReplicaGroup(3, revive_interval_ms=100)
        self.client = PopClient("", net=self.group.client)
        self.client.clock = self.group.clock  # type: ignore[assignment]
        self.dies_at = self.random.randrange(_STEPS)
        self.hand: list[Popped] = []
        self.stored: set[str] = set()
        self.asked: set[str] = set()
        """Of these an acknowledgement was sent."""
        self.done: set[str] = set()
        """Acknowledged in time: the answer was there before the message could come again."""
        self.loose: set[str] = set()
        """Given another time by a request that was not answered: there may be two of them."""
        self.again = 0

    async def run(self) -> None:
        await self.group.start()
        await self.through(self.send())  # the topic is made
        for step in range(_STEPS):
            call = self.random.choice((self.send, self.send, self.pop, self.pop, self.ack, self.ack, self.change))
            await self.through(call(), dies=step == self.dies_at)
        await self.drain()
        await self.group.stop()

    async def through(self, call: Coroutine[Any, Any, None], *, dies: bool = False) -> None:
        """Do this at the master of now; with `dies` it dies meanwhile, and the next master is waited for."""
        self.client.address = f"{self.group.master}:10911"
        task = asyncio.ensure_future(call)
        if dies:
            await self.group.clock.run_for(self.random.uniform(0.0, 8.0))
            old = self.group.master
            self.group.crash(old)
            await self.group.until(lambda: old not in self.group.masters and bool(self.group.masters), 30_000)
        await self.group.run_through(task)

    async def send(self) -> None:
        number = len(self.stored) + len(self.asked)
        body = f"m{number}-{self.random.randrange(1 << 30)}"
        header = send_header("T", 0, f"UNIQ_KEY\x01{body}\x02")
        try:
            answer = await self.client.ask(Code.SEND_MESSAGE_V2, header, body.encode())
        except RocketLakeError:
            return
        if answer.code == 0:
            self.stored.add(body)

    async def pop(self) -> None:
        try:
            popped = await self.client.pop(_INVISIBLE_MS, poll_ms=self.random.choice((0, 1000)))
        except RocketLakeError:
            return
        for each in popped:
            assert each.body not in self.done - self.loose, f"{each.body} was acknowledged in time, and comes again"
            self.again += each.message.reconsume_times > 0
        self.hand += popped

    async def ack(self) -> None:
        for popped in self.random.sample(self.hand, min(2, len(self.hand))):
            await self.ack_one(popped)

    async def ack_one(self, popped: Popped) -> None:
        self.asked.add(popped.body)
        try:
            answer = await self.client.ack(popped)
        except RocketLakeError:
            return
        due_ms = popped.handle.pop_ms + popped.handle.invisible_ms
        if answer.code == 0 and self.group.clock.now_ms() < due_ms:
            self.done.add(popped.body)
            self.hand.remove(popped)

    async def change(self) -> None:
        if self.hand:
            popped = self.hand.pop(self.random.randrange(len(self.hand)))
            self.loose.add(popped.body)
            try:
                await self.client.change(popped, self.random.choice((200, 3000)))
            except RocketLakeError:
                return

    async def drain(self) -> None:
        """What is left comes within a minute, to who acknowledges it at once."""
        until = self.group.clock.now_ms() + 60_000
        while self.group.clock.now_ms() < until and not self.stored <= self.asked:
            await self.through(self.pop())
            for popped in list(self.hand):
                await self.through(self.ack_one(popped))
                if popped in self.hand:
                    self.hand.remove(popped)
        assert self.stored <= self.asked, f"lost: {self.stored - self.asked}"


@pytest.mark.parametrize("first", seeds("pop failovers", short=2, whole=14, each=1))
async def test_what_is_acknowledged_stays_so_over_a_change_of_the_master(first: int) -> None:
    history = Failover(first)
    await history.run()
    assert history.done, "nothing was acknowledged in time, so nothing was tested"
