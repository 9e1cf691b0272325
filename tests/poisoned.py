"""One queue of a running cluster that holds every kind of bad message (poison.py), each between good ones.

It is filled by the kinds' own requests; `rot` then changes stored records in the log itself. All
readers of a test share one such queue, because filling it costs more than reading it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from rocketlake import Message, MessageQueue, Producer
from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from tests.poison import KINDS, Fate, Kind, command, good

__all__ = ["GOOD_BETWEEN", "QUEUE", "TOPIC", "PoisonedQueue", "only_good"]

TOPIC = "Poisoned"
QUEUE = 1
GOOD_BETWEEN = 2


class PoisonedQueue:
    """Queue `QUEUE` of a topic; `store` is the folder of its broker's store."""

    def __init__(self, namesrv: str, store: Path, kinds: Sequence[Kind] = KINDS, topic: str = TOPIC) -> None:
        self.namesrv = namesrv
        self.topic = topic
        self._store = store
        self._kinds = kinds
        self.good: list[bytes] = []
        self.stored: list[Kind] = []
        self.refused: list[tuple[Kind, str]] = []
        self._places: list[tuple[Kind, int]] = []

    async def fill(self) -> None:
        """Send all."""
        net = NetClient(clock=SystemClock())
        async with Producer("fillers", namesrv=self.namesrv) as producer:
            await producer.send(Message(self.topic, b"first"))
            queue = next(q for q in await producer.queues(self.topic) if q.queue_id == QUEUE)
            for kind in self._kinds:
                await self._send_good(producer, queue)
                address = await producer.instance.master(queue.broker_name, self.topic)
                await self._send_bad(net, address, kind)
            await self._send_good(producer, queue)
        await net.close()

    async def _send_good(self, producer: Producer, queue: MessageQueue) -> None:
        for _ in range(GOOD_BETWEEN):
            body = good(len(self.good))
            await producer.send(Message(self.topic, body), queue=queue)
            self.good.append(body)

    async def _send_bad(self, net: NetClient, address: str, kind: Kind) -> None:
        answer = await net.invoke(address, command(self.topic, QUEUE, kind), 10_000)
        if answer.code != ResponseCode.SUCCESS:
            self.refused.append((kind, answer.remark or ""))
            return
        self.stored.append(kind)
        message_id = answer.header(SendReplyHeader).msg_id
        self._places.append((kind, int(message_id[-16:], 16)))

    def rot(self) -> None:
        """Change the records of the kinds that rot, in the log itself."""
        for kind, offset in self._places:
            if kind.rot is None:
                continue
            path = max(p for p in (self._store / "commitlog").iterdir() if int(p.name) <= offset)
            with path.open("r+b") as log:
                log.seek(offset - int(path.name))
                size = struct.unpack(">i", log.read(4))[0]
                log.seek(-4, 1)
                record = bytearray(log.read(size))
                kind.rot(record)
                log.seek(-size, 1)
                log.write(record)

    def of(self, fate: Fate) -> list[Kind]:
        """The kinds of this fate that the broker took."""
        return [kind for kind in self.stored if kind.fate is fate]

    @property
    def odd_bodies(self) -> list[bytes]:
        """Bodies of the messages that are odd and can be read, in order."""
        return [kind.body if kind.seen is None else kind.seen for kind in self.of(Fate.READ)]


def only_good(bodies: list[bytes]) -> list[bytes]:
    """The good ones of these."""
    return [body for body in bodies if body.startswith(b"good ")]
