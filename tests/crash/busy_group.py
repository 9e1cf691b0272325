"""Clients of all kinds at work while a group of three real brokers changes its master; then everything is audited.

Owns        the clients, what they were told, the rules.
Must not know   how brokers are started and lost (busy_failovers.py).

Senders by key, many sends under way at once, with an ordered consumer: the messages of a key lie, and are handed out
for the first time, in the order in which they were sent. Other senders, with two members of a push consumer that hand
some messages back, and delayed messages: each acknowledged one is taken. Transactions, some of whose ends only a
question tells: committed ones are taken, others never stored. No message is stored more often than it was sent. An
effectively-once sink, which begins its batch again after each failure: each row is stored once, in order.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from rocketlake import Message, PushConsumer, TransactionEnd, TransactionProducer
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.consumer.listener import ConsumeResult
from rocketlake.client.hooks import Hooks, SendEvent
from rocketlake.model.message import StoredMessage
from rocketlake.spark.cluster import end_client
from rocketlake.spark.sink.cluster_sends import connect
from rocketlake.spark.sink.counts import Counts
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import parse_options
from rocketlake.spark.sink.task import SinkTask
from tests.stored import all_stored

__all__ = ["BROKER_SETTINGS", "TOPICS", "BusyClients"]

TOPICS = ("keyed", "plain", "later", "transacted", "once")
BROKER_SETTINGS: dict[str, object] = {
    "messageDelayLevel": "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    "transactionTimeOut": 700,
    "transactionCheckInterval": 500,
    "transactionCheckMax": 100,
}
KEYS = 4
UNDER_WAY = 8
"""Sends of one key at once."""
ROWS = 600
"""Of each batch of the sink."""
_PAUSE_SECONDS = 0.02


@dataclass
class Told:
    """What the clients sent, were told and were handed, each message by its body."""

    sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By topic."""
    attempts: Counter[str] = field(default_factory=Counter)
    """How often each message was sent: a repeat that got no answer the first time may be stored twice."""
    acked: dict[str, dict[str, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    """By topic: (queue id, queue offset) of each message that was acknowledged."""
    committed: dict[str, bool] = field(default_factory=dict)
    """The decision of each transaction whose half message was acknowledged."""
    taken: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    handed_in_order: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By key: the numbers of its messages as the ordered consumer had them."""
    refused: set[str] = field(default_factory=set)
    batches: int = 0
    """Of the sink: written in full."""
    failures: Counter[str] = field(default_factory=Counter)


class BusyClients:
    """All clients of one run."""

    def __init__(self, namesrv: str, seed: int) -> None:
        self.told = Told()
        self._random = random.Random(seed)
        self._namesrv = namesrv
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        config = ClientConfig(namesrv=namesrv, persist_interval_ms=500)
        self._producer = TransactionProducer(
            "busy",
            check=self._decision,
            client_config=config,
            config=ProducerConfig(send_timeout_ms=5000),
            hooks=Hooks(before_send=[self._count_attempt]),
        )
        self._consumers = [self._consumer("keyed-group", self._take_keyed, config, orderly=True, topics=("keyed",))]
        for member in range(2):
            topics = ("plain", "later", "transacted")
            one = ClientConfig(namesrv=namesrv, persist_interval_ms=500, instance_name=f"member-{member}")
            self._consumers.append(self._consumer("plain-group", self._take_plain, one, orderly=False, topics=topics))

    def _consumer(
        self, group: str, listener: object, config: ClientConfig, *, orderly: bool, topics: tuple[str, ...]
    ) -> PushConsumer:
        consumer = PushConsumer(
            group,
            listener=listener,  # type: ignore[arg-type]
            orderly=orderly,
            from_where=FirstOffset.FIRST,
            client_config=config,
            config=ConsumerConfig(retry_delay_level=1, rebalance_retry_ms=300, lock_interval_ms=1000),
        )
        for topic in topics:
            consumer.subscribe(topic)
        return consumer

    async def start(self) -> None:
        """Begin."""
        await self._producer.start()
        for consumer in self._consumers:
            await consumer.start()
        works = [self._send_keyed(key) for key in range(KEYS)]
        works += [self._send_plain(), self._send_later(), self._transact(), self._sink()]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def goes_on(self, count: int, seconds: float = 30) -> None:
        """Returns when so many more messages are acknowledged, and a batch of the sink and some transactions ended."""
        acked, batches, ends = self._acked, self.told.batches, len(self.told.committed)
        deadline = asyncio.get_running_loop().time() + seconds
        while self._acked < acked + count or self.told.batches <= batches or len(self.told.committed) < ends + 3:
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"the clients do not go on: {self.told.failures}")
            await asyncio.sleep(0.02)

    @property
    def _acked(self) -> int:
        return sum(map(len, self.told.acked.values()))

    async def end(self, seconds: float = 30) -> None:
        """Send no more; returns when consumers have everything, or the time is up."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        deadline = asyncio.get_running_loop().time() + seconds
        while self.missing():
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Leave."""
        self._is_over = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for consumer in self._consumers:
            await consumer.stop()
        await self._producer.stop()
        await asyncio.to_thread(end_client, self._namesrv)

    # -- senders -------------------------------------------------------------------------------------------------------

    async def _send_keyed(self, key: int) -> None:
        """Numbered messages of one key, several under way at once."""
        room = asyncio.Semaphore(UNDER_WAY)
        sends = []
        for number in itertools.count():
            if self._is_over:
                break
            await room.acquire()
            send = self._send(Message("keyed", f"{key}/{number}".encode()), key=f"key-{key}")
            sends.append(asyncio.create_task(send))
            sends[-1].add_done_callback(lambda _: room.release())
            await asyncio.sleep(_PAUSE_SECONDS / 2)
        await asyncio.gather(*sends)

    async def _send_plain(self) -> None:
        for number in itertools.count():
            if self._is_over:
                break
            await self._send(Message("plain", f"p/{number}".encode()))
            await asyncio.sleep(_PAUSE_SECONDS / 4)

    async def _send_later(self) -> None:
        for number in itertools.count():
            if self._is_over:
                break
            await self._send(Message("later", f"l/{number}".encode(), delay_level=self._random.randint(1, 3)))
            await asyncio.sleep(_PAUSE_SECONDS)

    def _count_attempt(self, event: SendEvent) -> None:
        self.told.attempts[event.message.body.decode()] += 1

    async def _send(self, message: Message, key: str | None = None) -> None:
        body = message.body.decode()
        self.told.sent[message.topic].append(body)
        try:
            result = await self._producer.send(message, key=key)
        except RocketLakeError as error:
            self.told.failures[f"{message.topic}: {type(error).__name__}"] += 1
            return
        if result.status is SendStatus.OK:
            self.told.acked[message.topic][body] = result.queue.queue_id, result.queue_offset
        else:
            self.told.failures[f"{message.topic}: {result.status.name}"] += 1

    # -- transactions --------------------------------------------------------------------------------------------------

    async def _transact(self) -> None:
        for number in itertools.count():
            if self._is_over:
                break
            body = f"{'cr'[self._random.random() < 0.3]}/{number}"
            try:
                sent = (
                    await self._producer.send_in_transaction(Message("transacted", body.encode()), self._local)
                ).sent
            except RocketLakeError as error:
                self.told.failures[f"transacted: {type(error).__name__}"] += 1
            else:
                if sent.status is SendStatus.OK:
                    self.told.committed[body] = body.startswith("c")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _local(self, message: Message) -> TransactionEnd:
        """Half of the ends come a little later, or only when a broker asks."""
        chance = self._random.random()
        await asyncio.sleep(0.1 if chance < 0.3 else 0)
        return TransactionEnd.UNKNOWN if chance > 0.8 else await self._decision(message)

    async def _decision(self, message: Message) -> TransactionEnd:
        return TransactionEnd.COMMIT if message.body.startswith(b"c") else TransactionEnd.ROLLBACK

    # -- the sink ------------------------------------------------------------------------------------------------------

    async def _sink(self) -> None:
        """Batch after batch, each begun again until it is written, as Spark does."""
        while not self._is_over:
            try:
                await asyncio.to_thread(self._write_batch, self.told.batches)
            except RocketLakeError as error:
                self.told.failures[f"once: {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)
            else:
                self.told.batches += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    def _write_batch(self, batch: int) -> Counts:
        options = parse_options(
            {
                "namesrvAddr": self._namesrv,
                "topic": "once",
                "deliveryGuarantee": "effectively_once",
                "batchBytes": "4k",
                "deliveryTimeoutMs": "8000",
            },
            streaming=False,
        )
        table = pa.record_batch({"body": pa.array([f"{batch}/{row}".encode() for row in range(ROWS)], pa.binary())})
        identity = TaskIdentity("busy", batch, 0)
        return SinkTask(options, InputColumns({"body": 0}), identity, connect(options)).write(iter([table]))

    # -- consumers -----------------------------------------------------------------------------------------------------

    async def _take_keyed(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            key, number = message.body.decode().split("/")
            self.told.handed_in_order[key].append(int(number))
            self.told.taken["keyed"][message.body.decode()] += 1

    async def _take_plain(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        for message in messages:
            body = message.body.decode()
            if body not in self.told.refused and self._random.random() < 0.05:
                self.told.refused.add(body)
                return ConsumeResult.LATER
            self.told.taken[message.topic][body] += 1
        return None

    # -- the audit -----------------------------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """Messages that the groups have still to take."""
        told = self.told
        owed = [(topic, body) for topic in ("keyed", "plain", "later") for body in told.acked[topic]]
        owed += [("transacted", body) for body, committed in told.committed.items() if committed]
        return [f"{topic}: {body} was not taken" for topic, body in owed if not told.taken[topic][body]]

    async def problems(self) -> list[str]:
        """All that is not as it must be; read from the master there is."""
        stored = dict(zip(TOPICS, await asyncio.gather(*map(self._read, TOPICS)), strict=True))
        return [
            *self.missing(),
            *self._not_in_place(stored),
            *self._out_of_order(stored["keyed"]),
            *self._wrong_ends(stored["transacted"]),
            *self._wrong_rows(stored["once"]),
        ]

    def report(self) -> str:
        """What was at work."""
        told = self.told
        counts = {topic: len(found) for topic, found in told.acked.items()}
        return (
            f"acknowledged {counts}, {len(told.committed)} transactions, {told.batches} batches of {ROWS} rows;"
            f" handed out twice {self._doubles()}, handed back {len(told.refused)}; failed sends {dict(told.failures)}"
        )

    async def _read(self, topic: str) -> dict[tuple[int, int], str]:
        """Body by (queue id, queue offset)."""
        stored = await all_stored(self._namesrv, topic)
        return {(each.queue_id, each.queue_offset): each.body.decode() for each in stored}

    def _not_in_place(self, stored: dict[str, dict[tuple[int, int], str]]) -> Iterator[str]:
        for topic in ("keyed", "plain"):
            for body, place in self.told.acked[topic].items():
                if stored[topic].get(place) != body:
                    yield f"{topic}: {body} is not at {place}, but {stored[topic].get(place)}"
        for topic in ("keyed", "plain", "later", "transacted"):
            for body, count in Counter(stored[topic].values()).items():
                if count > self.told.attempts[body]:
                    yield f"{topic}: {body} was sent {self.told.attempts[body]} times and is stored {count} times"
        for topic in ("keyed", "plain", "later"):
            if strange := set(stored[topic].values()) - set(self.told.sent[topic]):
                yield f"{topic}: nobody sent {strange}"

    def _out_of_order(self, stored: dict[tuple[int, int], str]) -> Iterator[str]:
        acked: dict[str, list[tuple[int, tuple[int, int]]]] = defaultdict(list)
        for body, place in self.told.acked["keyed"].items():
            key, number = body.split("/")
            acked[key].append((int(number), place))
        for key, places in acked.items():
            in_order = [place for _number, place in sorted(places)]
            if in_order != sorted(in_order):
                yield f"key {key}: messages lie in another order than they were sent"
        for key, numbers in self.told.handed_in_order.items():
            first = list(dict.fromkeys(numbers))
            if wrong := [pair for pair in itertools.pairwise(first) if pair[0] > pair[1]]:
                yield f"key {key}: handed out first in another order than they were sent: {wrong}"

    def _wrong_ends(self, stored: dict[tuple[int, int], str]) -> Iterator[str]:
        if back := [body for body in stored.values() if body.startswith("r")]:
            yield f"transactions were rolled back and are stored: {back}"

    def _wrong_rows(self, stored: dict[tuple[int, int], str]) -> Iterator[str]:
        copies = Counter(stored.values())
        whole = {f"{batch}/{row}" for batch in range(self.told.batches) for row in range(ROWS)}
        if lost := whole - copies.keys():
            yield f"rows of the sink are lost: {sorted(lost)[:5]} and so on, {len(lost)}"
        if twice := [body for body, count in copies.items() if count > 1]:
            yield f"rows of the sink are stored twice: {twice[:5]} and so on, {len(twice)}"
        last: dict[int, list[int]] = {}
        for (queue_id, _offset), body in sorted(stored.items()):
            place = [int(part) for part in body.split("/")]
            if place < last.get(queue_id, place):
                yield f"rows of the sink are out of order in queue {queue_id}: {body}"
            last[queue_id] = place

    def _doubles(self) -> dict[str, int]:
        """By topic: how many messages were handed out more than once. At-least-once allows them."""
        return {
            topic: sum(count > 1 for body, count in taken.items() if body not in self.told.refused)
            for topic, taken in self.told.taken.items()
        }
