"""Producers and consumers of a simulated run: every message has a name, by which the history notes its consumers.

Owns        the messages (plain, batches, delayed, keyed, in transactions), how often a listener refuses, the notes in
            the history.
Must not know   faults, which broker is up.

A producer sends a message again until it is acknowledged, so that in the end every name is owed to every group. Each
transaction is decided before it is sent: its message is owed or forbidden. Often the producer tells its decision only
when a broker asks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls.send import SendResult, SendStatus
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.consumer.listener import ConsumeResult
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.hooks import Hooks, SendEvent
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.net.memory_net import MemoryNet
from rocketlake.testing.history import Ack, History

__all__ = ["GROUPS", "KEYED", "LATER", "PLAIN", "TRANSACTED", "Load", "Receiver", "Sender"]

PLAIN, LATER, KEYED, TRANSACTED = "plain", "later", "keyed", "transacted"
GROUPS = {"concurrent": (PLAIN, LATER, TRANSACTED), "orderly": (KEYED,)}
"""Consumer group -> its topics."""
_COMMIT_CHANCE = 0.7
_SILENT_CHANCE = 0.3
"""How often a producer tells the end of a transaction only when a broker asks."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is sent: messages per producer, seconds they are spread over, chance that a listener says later."""

    messages: int = 60
    seconds: float = 30.0
    refuse_chance: float = 0.03


class _ClientHost:
    """A machine with one client instance."""

    def __init__(self, name: str, host: str, namesrv: str, net: MemoryNet, clock: Clock, config: ClientConfig) -> None:
        self.name = name
        self.host = net.host(host)
        settings = replace(config, namesrv=namesrv, client_ip=host, instance_name=name)
        self.instance = ClientInstance(settings, clock=clock, network=self.host)


class Sender:
    """One producer and its messages."""

    def __init__(
        self, name: str, host: str, namesrv: str, net: MemoryNet, history: History, load: Load, config: ClientConfig
    ) -> None:
        self._random = random.Random(f"{net.random.random()} {name}")
        self._history = history
        self._load = load
        self._clock = history.clock
        self.is_done = False
        self.name = name
        self._sending: list[Message] = []
        self._client = _ClientHost(name, host, namesrv, net, self._clock, config)
        hooks = Hooks(before_send=[self._count_attempt])
        self._producer = TransactionProducer(
            f"senders-{name}",
            check=self._decision,
            instance=self._client.instance,
            hooks=hooks,
            config=ProducerConfig(send_timeout_ms=2000),
        )

    async def run(self) -> None:
        """Send everything, each message until it is acknowledged."""
        await self._client.instance.start()
        await self._producer.start()
        pause = self._load.seconds / self._load.messages
        for plan in self._plans():
            await self._clock.sleep(self._random.uniform(0, 2 * pause * len(plan)))
            await self._send(plan)
        self.is_done = True
        self._history.note(f"sender {self.name} is done")

    async def stop(self) -> None:
        """Leave."""
        await self._producer.stop()
        await self._client.instance.stop()

    def _plans(self) -> Iterator[list[Message]]:
        """The messages of each send: one, or a batch."""
        number = 0
        while number < self._load.messages:
            kind = self._random.choices(("plain", "batch", "later", "keyed", "transacted"), (4, 1, 1, 5, 2))[0]
            count = self._random.randint(2, 4) if kind == "batch" else 1
            yield [self._message(kind, number + step) for step in range(count)]
            number += count

    def _message(self, kind: str, number: int) -> Message:
        name = f"{self.name}/{number}"
        size = self._random.choice((0, 0, 50, 400, 1500))
        body = f"{name} ".encode().ljust(size, b".")
        topic = {"later": LATER, "keyed": KEYED, "transacted": TRANSACTED}.get(kind, PLAIN)
        self._history.sent[name] = topic, body
        if kind == "transacted":
            self._history.decisions[name] = self._random.random() < _COMMIT_CHANCE
        key = f"{self.name}-{self._random.randrange(3)}" if kind == "keyed" else None
        delay = self._random.randint(1, 3) if kind == "later" else 0
        return Message(topic, body, keys=name, sharding_key=key, delay_level=delay)

    async def _send(self, messages: list[Message]) -> None:
        self._sending = messages
        while True:
            losses = len(self._history.losses)
            try:
                results = await self._call(messages)
                if messages[0].topic == TRANSACTED:
                    self._half_acked(messages[0], results[0], losses)
                    return
            except RocketLakeError as error:
                self._history.note(f"send of {name_of(messages[0])} failed: {type(error).__name__}: {error}")
            else:
                if all(result.status is SendStatus.OK for result in results):
                    for message, result in zip(messages, results, strict=True):
                        self._acked(message, result)
                    return
                self._history.note(f"send of {name_of(messages[0])} is unsure: {results[0].status.name}")
            await self._clock.sleep(self._random.uniform(0.1, 0.7))

    async def _call(self, messages: list[Message]) -> list[SendResult]:
        if len(messages) > 1:
            return await self._producer.send_batch(messages)
        if messages[0].topic == TRANSACTED:
            return [(await self._producer.send_in_transaction(messages[0], self._local)).sent]
        return [await self._producer.send(messages[0], key=messages[0].sharding_key)]

    async def _local(self, message: Message) -> TransactionEnd:
        await self._clock.sleep(self._random.choice((0.0, 0.01, 1.0)))
        if self._random.random() < _SILENT_CHANCE:
            return TransactionEnd.UNKNOWN
        return await self._decision(message)

    async def _decision(self, message: Message) -> TransactionEnd:
        return TransactionEnd.COMMIT if self._history.decisions[name_of(message)] else TransactionEnd.ROLLBACK

    def _half_acked(self, message: Message, result: SendResult, losses_before: int) -> None:
        if result.status is SendStatus.OK:
            place = parse_offset_message_id(result.offset_message_id)[2]
            queue = result.queue.broker_name, HALF_TOPIC, 0
            self._history.half_stored(Ack(name_of(message), queue, result.queue_offset, place), losses_before)

    def _count_attempt(self, _event: SendEvent) -> None:
        # The event of a batch names its first message only.
        self._history.attempts.update(name_of(message) for message in self._sending)

    def _acked(self, message: Message, result: SendResult) -> None:
        queue = result.queue
        self._history.acknowledge(
            Ack(
                name_of(message),
                (queue.broker_name, queue.topic, queue.queue_id),
                result.queue_offset,
                parse_offset_message_id(result.offset_message_id)[2],
                key=message.sharding_key or "",
                is_delayed=message.delay_level > 0,
            )
        )


class Receiver:
    """One member of a consumer group. After `crash` it is a new object that goes on."""

    def __init__(
        self,
        name: str,
        group: str,
        host: str,
        namesrv: str,
        net: MemoryNet,
        history: History,
        load: Load,
        config: ClientConfig,
        consumer_config: ConsumerConfig,
    ) -> None:
        self.name = name
        self.group = group
        self._random = random.Random(f"{net.random.random()} {name}")
        self._history = history
        self._load = load
        self._is_dead = False
        self._client = _ClientHost(name, host, namesrv, net, history.clock, config)
        self._consumer = PushConsumer(
            group,
            listener=self._listen,
            orderly=group == "orderly",
            from_where=FirstOffset.FIRST,
            instance=self._client.instance,
            config=consumer_config,
        )
        for topic in GROUPS[group]:
            self._consumer.subscribe(topic)

    async def start(self) -> None:
        """Join the group."""
        await self._client.instance.start()
        await self._consumer.start()

    async def stop(self) -> None:
        """Leave the group properly."""
        await self._consumer.stop()
        await self._client.instance.stop()

    async def crash(self) -> None:
        """Kill the process: no broker hears of it again, and calls of its listener no longer count."""
        self._is_dead = True
        self._client.host.crash()
        await self.stop()

    async def _listen(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        for message in messages:
            self._hand(message)
        await self._history.clock.sleep(self._random.choice((0.0, 0.001, 0.05)))
        if self._random.random() < self._load.refuse_chance:
            self._history.refused.update((self.group, name_of(message)) for message in messages)
            return ConsumeResult.LATER
        for message in messages:
            if not self._is_dead:
                self._history.finish(self.group, queue_of(message), message.queue_offset, name_of(message))
        return None

    def _hand(self, message: StoredMessage) -> None:
        if not self._is_dead:
            self._history.hand(self.group, self.name, queue_of(message), message.queue_offset, name_of(message))


def name_of(message: Message) -> str:
    """The name in a body."""
    return message.body.split(b" ")[0].decode("utf-8", "replace")


def queue_of(message: StoredMessage) -> tuple[str, str, int]:
    """The queue the message was read from; a message that came back has its retry topic there."""
    retry = "%RETRY%" if message.retry_topic else ""
    return message.broker_name, retry + message.topic, message.queue_id
