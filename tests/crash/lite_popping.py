"""A load on lite topics: messages are sent, groups of each kind pop and acknowledge them, while something goes wrong.

Owns        what was sent, what each group got and acknowledged in time, who may own a lite topic of an exclusive group.
Must not know   what goes wrong.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from time import monotonic
from typing import ClassVar

from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.lite import LiteAction
from rocketlake.protocol.request_code import RequestCode as Code
from tests.lites import PARENT, LiteClient, PoppedLite

LITES = [f"l{number}" for number in range(20)]
"""What clients subscribe to. There are others, which only a wildcard group takes."""
CLIENTS = 3
INVISIBLE_MS = 1000
FORGOTTEN = 10
"""One in so many messages is not acknowledged."""
_LOOK_MS = 100
"""A pop is no older than that when the broker looks at what is in flight."""
AHEAD = 100
"""The sender slows down when a group has so many messages to get."""
SAVED_SECONDS = 1.5
"""An acknowledgement that is so old is in the table of offsets on disk (flushConsumerOffsetInterval=100)."""


def lite_of(number: int) -> str:
    """One message in five has a lite topic of its own."""
    place = number % 25
    return LITES[place] if place < len(LITES) else f"new-{number}"


@dataclass
class Flight:
    """What was popped of a lite topic last."""

    pop_ms: int
    end_ms: int
    open: set[int]
    """Those whose acknowledgement was not sent yet."""


class SharedGroup:
    """The clients of a group, and what came of them. Each of its clients may have each message."""

    attributes: ClassVar[dict[str, str]] = {}

    def __init__(self, moments: random.Random) -> None:
        self.name = type(self).__name__
        self.moments = moments
        self.clients: list[LiteClient] = []
        self.got: defaultdict[str, list[int]] = defaultdict(list)
        """Lite topic -> its messages in the order in which they came first."""
        self.seen: set[int] = set()
        self.acked: dict[int, float] = {}
        """Acknowledged in time, as all before it -> when (monotonic seconds). It may not come again."""
        self.done: set[int] = set()
        """The same, and those of which nobody knows whether the acknowledgement counts: they may come again, or not."""
        self.forgets = True
        self.held: list[PoppedLite] = []
        """What clients had when the broker died. They acknowledge some of it when it is back."""
        self.flights: dict[str, Flight] = {}

    def wants(self, number: int) -> bool:
        """True if the group is to get this message."""
        return lite_of(number) in LITES

    async def begin(self, address: str) -> None:
        """The broker has started, and knows no subscription."""
        self.clients = [LiteClient(address, self.name, f"{self.name}-{number}") for number in range(CLIENTS)]
        first = self.clients[0]
        entry = GroupEntry(group_name=self.name, attributes={"+lite.bind.topic": PARENT, **self.attributes})
        assert (await first.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())).code == 0
        for client in self.clients:
            await change(client, LiteAction.COMPLETE_ADD, LITES)
        for popped in self.held:
            if self.moments.randrange(2):
                self.done.add(int(popped.body))
                await first.ack_lite(popped)
        self.held.clear()

    async def end(self, died: float) -> None:
        """The broker died at `died`, in monotonic seconds."""
        for client in self.clients:
            await client.net.close()
        self.flights.clear()
        self.acked = {number: at for number, at in self.acked.items() if at < died - SAVED_SECONDS}

    async def take(self, client: LiteClient) -> None:
        """Until the broker dies."""
        while True:
            await (self.take_once(client) if self.moments.randrange(10) else self.subscribe(client))

    async def take_once(self, client: LiteClient) -> None:
        since = monotonic()
        popped = await client.pop_lite(INVISIBLE_MS, poll_ms=200, count=8)
        self.held += popped
        for lite, messages in groupby(popped, lambda each: each.lite):
            self.may_have(lite, client, since)
            self._came(lite, list(messages))
        passed: set[str] = set()
        for each in popped:
            if not self.forgets or self.moments.randrange(FORGOTTEN):
                await self._acknowledge(client, each, counts=each.lite not in passed)
            else:
                passed.add(each.lite)  # what was acknowledged behind it comes again with it
            self.held.remove(each)

    def _came(self, lite: str, messages: list[PoppedLite]) -> None:
        numbers = [int(each.body) for each in messages]
        again = self.acked.keys() & set(numbers)
        assert not again, f"{self.name}: {lite} has {again} again, which were acknowledged in time"
        handle, before = messages[0].handle, self.flights.get(lite)
        end_ms = handle.pop_ms + handle.invisible_ms
        if before is None or before.pop_ms <= handle.pop_ms:
            is_free = before is None or not before.open or before.end_ms <= handle.pop_ms + _LOOK_MS
            assert is_free, f"{self.name}: {lite} has {numbers} of {handle.pop_ms} while {before} is in flight"
            self.flights[lite] = Flight(handle.pop_ms, end_ms, set(numbers))
        self.got[lite] += [number for number in numbers if number not in self.seen]
        self.seen.update(numbers)

    async def _acknowledge(self, client: LiteClient, popped: PoppedLite, *, counts: bool) -> None:
        number = int(popped.body)
        self.done.add(number)
        if (flight := self.flights.get(popped.lite)) is not None:
            flight.open.discard(number)
        answer = await client.ack_lite(popped)
        assert answer.code == 0, f"{self.name}: {popped}: {answer.remark}"
        if counts and client.clock.now_ms() < popped.handle.pop_ms + popped.handle.invisible_ms:
            self.acked[number] = monotonic()

    async def subscribe(self, client: LiteClient) -> None:
        """Change what the client subscribes to; the group gets all that it wants afterwards, too."""
        some = self.moments.sample(LITES, 5)
        await change(client, LiteAction.PARTIAL_REMOVE, some)
        await change(client, *self.moments.choice(((LiteAction.PARTIAL_ADD, some), (LiteAction.COMPLETE_ADD, LITES))))

    def may_have(self, lite: str, client: LiteClient, since: float) -> None:
        """The client may have messages of a pop that it asked for at `since`."""

    def open(self, sent: Collection[int]) -> set[int]:
        """What is to come yet."""
        return {number for number in sent if number not in self.done and self.wants(number)}


class WildcardGroup(SharedGroup):
    """It gets all lite topics. The list of those that wait is short, so the broker has to look for the others."""

    attributes: ClassVar = {"+lite.sub.wildcard": "true", "+lite.sub.client.max.event.cnt": "10"}

    def wants(self, number: int) -> bool:
        return True

    async def subscribe(self, client: LiteClient) -> None:
        await change(client, self.moments.choice((LiteAction.COMPLETE_ADD, LiteAction.COMPLETE_REMOVE)), [])


@dataclass
class Claim:
    """A client asks for a lite topic: it is its own from some moment between these on."""

    client_id: str
    asked: float
    answered: float = math.inf


class ExclusiveGroup(SharedGroup):
    """The client that asked last for a lite topic has it. A whole set takes what is nobody's: here that is nothing."""

    attributes: ClassVar = {"+lite.sub.model": "Exclusive"}

    async def begin(self, address: str) -> None:
        await super().begin(address)
        first = Claim(self.clients[0].client_id, monotonic(), monotonic())
        self.claims = {lite: [first] for lite in LITES}

    async def subscribe(self, client: LiteClient) -> None:
        if not self.moments.randrange(3):
            await change(client, LiteAction.COMPLETE_ADD, LITES)
            return
        claim = Claim(client.client_id, monotonic())
        takes = self.moments.sample(LITES, 5)
        for lite in takes:
            self.claims[lite].append(claim)
        await change(client, LiteAction.PARTIAL_ADD, takes)
        claim.answered = monotonic()

    def may_have(self, lite: str, client: LiteClient, since: float) -> None:
        of_others = [each for each in self.claims[lite] if each.client_id != client.client_id]
        own = [each.answered for each in self.claims[lite] if each.client_id == client.client_id]
        lost = max((each.asked for each in of_others if each.answered <= since), default=0.0)
        assert max(own, default=0.0) > lost, f"{client.client_id} got {lite}, which another client had taken"


class LitePopping:
    """A sender, and a group of each kind."""

    def __init__(self, moments: random.Random) -> None:
        self.groups = [SharedGroup(moments), ExclusiveGroup(moments), WildcardGroup(moments)]
        self.sent: set[int] = set()
        self.refused = 0
        self._next = 0

    async def begin(self, address: str) -> None:
        """The broker has started."""
        self.sender = LiteClient(address)
        await self.sender.make_parent()
        for group in self.groups:
            await group.begin(address)

    def tasks(self) -> list[asyncio.Task[None]]:
        """They send and take until the broker dies."""
        takes = [group.take(client) for group in self.groups for client in group.clients]
        return [asyncio.create_task(work) for work in (self._send(), *takes)]

    async def end(self, died: float) -> None:
        """The broker died at `died`, in monotonic seconds."""
        await self.sender.net.close()
        for group in self.groups:
            await group.end(died)

    async def _send(self) -> None:
        while True:
            if any(len(group.open(self.sent)) > AHEAD for group in self.groups):
                await asyncio.sleep(0.05)
            number, self._next = self._next, self._next + 1
            answer = await self.sender.put(lite_of(number), str(number))
            if answer.code == 0:
                self.sent.add(number)
            else:
                self.refused += 1

    async def take_all(self) -> None:
        """Until each group has all that is for it; AssertionError if that takes longer than a minute."""
        takes = [self._take_all(group, client) for group in self.groups for client in group.clients]
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*takes)
        except TimeoutError:
            lost = {group.name: sorted(group.open(self.sent))[:20] for group in self.groups}
            raise AssertionError(f"of {len(self.sent)} messages are lost: {lost}") from None

    def check(self, least: int) -> None:
        """Each lite topic came in its order, and each group took at least so many messages."""
        for group in self.groups:
            for lite, numbers in group.got.items():
                assert numbers == sorted(numbers), f"{group.name}: {lite}"
            assert len(group.done) >= least, "the load must really have run"

    async def _take_all(self, group: SharedGroup, client: LiteClient) -> None:
        group.forgets = False
        while group.open(self.sent):
            await group.take_once(client)


async def change(client: LiteClient, action: LiteAction, lites: Collection[str]) -> None:
    answer = await client.change_set(action, *lites)
    assert answer.code == 0, answer.remark
