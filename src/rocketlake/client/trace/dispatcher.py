"""Trace records on their way to the trace topic: collected, packed into messages, sent in the background.

Owns        the queue of records and its bound, the messages that carry them, their sends.
Must not know   when a record is made (recorder.py), its text (format.py).

Rule: tracing never fails or delays what it tells of. Records are taken as long as the queue has room; others, and those
whose message no broker takes, are dropped and counted. Only `stop` waits: for what is left, STOP_SECONDS at most.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.client.alarm import Alarm
from rocketlake.client.calls import send as calls
from rocketlake.client.errors import NoRoute
from rocketlake.client.instance import ClientInstance
from rocketlake.client.trace.format import Record, encode, keys_of
from rocketlake.model.message import Message

__all__ = ["Dispatcher"]

log = get_logger(__name__)
RECORDS_MAX = 20_480
"""More do not wait: Java's client holds 2048 batches of ten ready to be sent."""
FLUSH_RECORDS = 100
FLUSH_SECONDS = 5.0
TEXT_CHARS_MAX = 128_000
KEYS_BYTES_MAX = 16_000
"""Of one trace message: its keys are properties, which have 32 KiB together."""
COMPRESS_OVER_BYTES = 4096
ON_WAY_MAX = 16
SEND_TIMEOUT_MS = 5000
TRIES = 3
STOP_SECONDS = 5.0


class Dispatcher(Service):
    """Sends the records of one producer or consumer to the trace topic."""

    def __init__(self, instance: ClientInstance, group: str, topic: str, make_key: Callable[[], str]) -> None:
        """`group`: in whose name the trace messages are sent; `make_key` makes their ids."""
        super().__init__(f"trace {group}", instance.clock)
        self.dropped = 0
        """Records that were not sent."""
        self._instance = instance
        self._topic = topic
        self._make_key = make_key
        self._sender = calls.Sender(group, new_topic_queues=1)
        self._waiting: deque[Record] = deque()
        self._alarm = Alarm(instance.clock)
        self._on_way: set[asyncio.Task[None]] = set()
        self._turn = itertools.count()
        self._has_failed = False
        self._warnings = RareWarnings(log, interval_seconds=60.0, clock=instance.clock)

    async def start(self) -> None:
        """Take records."""
        await super().start()
        self.keep("flush", self._flush_in_time)

    async def stop(self) -> None:
        """Take no more records; send those that wait."""
        if not self.is_running:
            return
        self.is_running = False
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._flush()
                while self._on_way:
                    await asyncio.wait(tuple(self._on_way))
        except TimeoutError:
            pass
        finally:
            self._drop(len(self._waiting), "the broker of the trace topic did not take them before the stop")
            self._waiting.clear()
            await super().stop()

    def append(self, records: Sequence[Record]) -> None:
        """Take records, or drop them if too many wait."""
        if len(self._waiting) >= RECORDS_MAX or not self.is_running:
            self._drop(len(records), f"{RECORDS_MAX} wait already" if self.is_running else "tracing has stopped")
            return
        self._waiting.extend(records)
        if len(self._waiting) >= FLUSH_RECORDS:
            self._alarm.ring()

    def _drop(self, count: int, why: object) -> None:
        if count:
            self.dropped += count
            text = "%s dropped trace records, %d so far: %s"
            self._warnings.warn("dropped", text, self.name, self.dropped, why)

    async def _flush_in_time(self) -> None:
        await self._alarm.wait(FLUSH_SECONDS)
        await self._flush()
        if self._has_failed:
            # A cluster without the topic, or in trouble, is not asked for each hundred records again.
            self._has_failed = False
            await self._clock.sleep(FLUSH_SECONDS)

    async def _flush(self) -> None:
        while self._waiting and not (self._has_failed and self.is_running):
            if len(self._on_way) >= ON_WAY_MAX:
                await asyncio.wait(tuple(self._on_way), return_when=asyncio.FIRST_COMPLETED)
                continue
            message, count = self._next_message()
            task = self.spawn("send", self._send(message, count))
            self._on_way.add(task)
            task.add_done_callback(self._on_way.discard)

    def _next_message(self) -> tuple[Message, int]:
        """As many of the records that wait as fit into one message, and their number."""
        waiting = self._waiting
        texts: list[str] = []
        keys: dict[str, None] = {}
        chars = keys_bytes = 0
        while waiting and chars < TEXT_CHARS_MAX:
            new = keys_of(waiting[0])
            if texts and keys_bytes + _bytes(new) > KEYS_BYTES_MAX:
                break
            record = waiting.popleft()
            if not texts and _bytes(new) > KEYS_BYTES_MAX:
                new = (record.message_id,)
            texts.append(encode(record))
            keys |= dict.fromkeys(new)
            keys_bytes += _bytes(new)
            chars += len(texts[-1])
        return Message(self._topic, "".join(texts).encode("utf-8", "replace"), keys=keys), len(texts)

    async def _send(self, message: Message, count: int) -> None:
        why: object = "they were on their way at the stop"
        try:
            await self._send_to_any(calls.prepare(message, self._make_key(), compress_over=COMPRESS_OVER_BYTES))
            why = None
        except RocketLakeError as error:
            hint = " (traceTopicEnable=true makes it at the start of a broker)" if isinstance(error, NoRoute) else ""
            why = f"{error}{hint}"
        finally:
            if why is not None:
                self._has_failed = True
                self._drop(count, why)

    async def _send_to_any(self, outgoing: calls.Outgoing) -> None:
        instance, topic = self._instance, self._topic
        queues = instance.known_queues(topic) or await instance.queues_to_publish(topic, new_queues=1)
        failure: RocketLakeError | None = None
        for _ in range(TRIES):
            queue = queues[next(self._turn) % len(queues)]
            try:
                address = await instance.master(queue.broker_name, topic)
                command = self._sender.command(outgoing, queue, self._clock.now_ms())
                answer = await instance.invoke_at_master(address, queue, command, SEND_TIMEOUT_MS)
                calls.result_of(answer, outgoing, queue, address)
            except RocketLakeError as error:
                failure = error
            else:
                return
        assert failure is not None
        raise failure


def _bytes(keys: Sequence[str]) -> int:
    return sum(len(key.encode("utf-8", "replace")) + 1 for key in keys)
