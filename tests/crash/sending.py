"""Senders that find the master by themselves, and note when each message was acknowledged.

Some send each message once, under a name of its own; a repeater sends numbered batches again until they are taken, as
a task of Spark does, and each of its rows must be stored once.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import QUEUES, Ledger, Load
from tests.crash.test_replays import Task, stored

_PAUSE_SECONDS = 0.003
_TIMEOUT_MS = 500
_DOUBTED_MS = 100
"""So long the answer of a broker is awaited that gave none last time: a gap is the group's, not that of this search."""
_ONCE = "OnceTest"


class Sending:
    """Senders that go on at whatever broker takes their message; notes when each was acknowledged."""

    def __init__(self, addresses: Sequence[str], ledger: Ledger) -> None:
        self._addresses = addresses
        self._ledger = ledger
        self._load = Load("", ledger)
        self._net = NetClient(clock=SystemClock())
        self.acked_at: list[float] = []
        self.is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._first = 0
        self._awaited = 0
        self._reached = asyncio.Event()
        self._doubted: set[str] = set()
        """Addresses without an answer."""
        self.answers: dict[str, str] = {}
        """What each address answered last."""

    def begin(self, senders: int, name: str) -> None:
        """Send until `end`."""
        self._tasks = [asyncio.create_task(self._send(f"{name}-{number}", number)) for number in range(senders)]

    async def end(self) -> None:
        """Returns when no message is under way."""
        self.is_over = True
        await asyncio.gather(*self._tasks)
        await self._net.close()

    async def _send(self, name: str, sender: int) -> None:
        number = 0
        while not self.is_over:
            await asyncio.sleep(_PAUSE_SECONDS)
            at = self._first
            identity = f"{name}-{number}"
            number += 1
            self._ledger.tried.add(identity)
            try:
                address = self._addresses[at % len(self._addresses)]
                answer = await self._net.invoke(address, self._load._command(identity, sender), self._timeout(address))
            except RocketLakeError as error:
                self.answers[address] = str(error)
                self._doubted.add(address)
                await self._go_on(at)
                continue
            self._doubted.discard(address)
            self.answers[address] = f"code {answer.code} {answer.remark or ''}"
            if answer.code != ResponseCode.SUCCESS:
                await self._go_on(at)
                continue
            reply = answer.header(SendReplyHeader)
            self._ledger.acked[identity] = (reply.queue_id, reply.queue_offset)
            self.acked_at.append(asyncio.get_running_loop().time())
            if len(self.acked_at) >= self._awaited:
                self._reached.set()

    def _timeout(self, address: str) -> int:
        """Milliseconds. All in doubt: that is the load of this machine."""
        return _DOUBTED_MS if address in self._doubted and len(self._doubted) < len(self._addresses) else _TIMEOUT_MS

    async def _go_on(self, at: int) -> None:
        """Try the next broker, all senders together."""
        if self._first == at:
            self._first = at + 1
        await asyncio.sleep(0.005)

    async def goes_on(self, count: int) -> None:
        """Returns when so many more messages are acknowledged."""
        self._awaited = len(self.acked_at) + count
        self._reached.clear()
        await self._reached.wait()

    def gap_since(self, start: float) -> float:
        """The longest time without an acknowledgement behind `start`, seconds."""
        times = [start, *(at for at in self.acked_at if at >= start)]
        return max(later - earlier for earlier, later in zip(times, [*times[1:], times[-1]], strict=True))


class Repeater(Task):
    """Batches that the group stores once, however often they are sent."""

    rows = 40
    pause_seconds = 0.1
    topic = _ONCE
    refusals = frozenset(
        {
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SLAVE_NOT_AVAILABLE,
            ResponseCode.FLUSH_SLAVE_TIMEOUT,
            ResponseCode.SYSTEM_BUSY,
        }
    )

    def __init__(self, addresses: Sequence[str], name: str) -> None:
        super().__init__(addresses[0], name, random.Random(name))
        self._next = itertools.cycle(addresses)

    async def repeat(self) -> None:
        """The next try goes to another broker."""
        self.address = next(self._next)
        await asyncio.sleep(0.02)

    async def wrong(self, address: str) -> list[str]:
        """Queues that do not hold each row once, in order."""
        found = []
        for queue_id in range(QUEUES):
            bodies = await stored(address, queue_id, self.topic)
            wanted = [self.body(batch, queue_id, row) for batch in range(self.batch) for row in range(self.rows)]
            if bodies != wanted:
                found.append(
                    f"queue {queue_id} has {len(bodies)} rows, {len(set(bodies))} of them once, for {len(wanted)}"
                )
        return found
