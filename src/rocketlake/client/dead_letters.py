"""The dead letters of a group: read, repaired, sent again, dropped.

Owns        the mark of a group's dead letters, what a dead letter looks like when it is sent again.
Must not know   how a message becomes a dead letter.

Rule: dead letters stay in %DLQ%group until the retention deletes them. The mark, an offset in each of its queues, says
which of them are settled: sent again or dropped. It moves over settled letters up to the first that was read and is
not settled. Letters behind that one are read again next time.

The mark is saved behind each letter that was sent again. A process that dies between the two sends that letter twice,
with the same message id. The mark is an offset like those of consumers: a broker that dies may lose its last seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rocketlake.base.service import stop_each
from rocketlake.base.settings.forms import AsyncForms
from rocketlake.client.calls.send import SendResult
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.pull import PullConsumer
from rocketlake.client.errors import NoRoute
from rocketlake.client.producer.producer import Producer
from rocketlake.model import property_names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import DEAD_LETTER_GROUP, check_group, dead_letter_topic, retry_topic

__all__ = ["DeadLetters", "Span"]

_POLL_MS = 1000
_AT_ONCE = 32
_KEPT = frozenset(
    {
        property_names.KEYS, property_names.TAGS, property_names.UNIQUE_KEY, property_names.SHARDING_KEY,
        property_names.ORIGIN_MESSAGE_ID, property_names.INSTANCE_ID, property_names.BUYER_ID,
        property_names.CORRELATION_ID, property_names.REPLY_TO_CLIENT, property_names.TTL,
        property_names.TRACE_CONTEXT, property_names.BORN_HOST, property_names.BORN_TIMESTAMP,
    }
)  # fmt: skip
"""Of RocketMQ's own properties a letter that is sent again keeps these; the others tell how it came to be one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one queue of dead letters: the oldest kept, the first that is not settled, the next to come."""

    begin: int
    mark: int
    end: int

    @property
    def open(self) -> int:
        """How many are not settled."""
        return self.end - self.mark


class _Mark:
    """The mark of one queue during a reading."""

    def __init__(self, offset: int) -> None:
        self._next = offset
        self._read: deque[int] = deque()
        self._settled: set[int] = set()

    def read(self, offset: int) -> None:
        """A letter was read; they come in order."""
        if offset >= self._next:
            self._read.append(offset)
            self._next = offset + 1

    def settle(self, offset: int) -> int | None:
        """The new mark; None if it stays where it is."""
        if not self._read or offset < self._read[0]:
            return None
        self._settled.add(offset)
        if offset != self._read[0]:
            return None
        while self._read and self._read[0] in self._settled:
            self._settled.remove(self._read.popleft())
        return self._read[0] if self._read else self._next


class DeadLetters(AsyncForms):
    """`async with DeadLetters("billing", namesrv="127.0.0.1:9876") as letters:`, then read, send again, drop."""

    _twins = ""

    def __init__(self, group: str, *, namesrv: str | None = None, client_config: ClientConfig | None = None) -> None:
        """`group`: the consumer group whose dead letters they are. Raises UsageError for a name that is none."""
        check_group(group)
        self.group = group
        self._producer = Producer(DEAD_LETTER_GROUP, namesrv=namesrv, client_config=client_config)
        self._reader = PullConsumer(DEAD_LETTER_GROUP, instance=self._producer.instance, auto_commit=False)
        self._marks: dict[MessageQueue, _Mark] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._producer.start()
            await self._reader.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await stop_each(self._reader.stop, self._producer.stop)

    async def spans(self) -> dict[MessageQueue, Span]:
        """Where the dead letters begin, are settled and end; {} for a group without any. Raises LinkError."""
        reader = self._reader
        try:
            queues = await reader.fetch_queues(dead_letter_topic(self.group))
        except NoRoute:
            return {}
        spans = {}
        for queue in queues:
            begin, end = await reader.begin_offset(queue), await reader.end_offset(queue)
            spans[queue] = Span(begin, min(max(await reader.committed(queue), begin), end), end)
        return spans

    async def read(self, *, settled: bool = False) -> AsyncIterator[StoredMessage]:
        """The letters that are there now and not settled (`settled`: also those that are, as far as they are kept).

        In the order of each queue. A new reading forgets which letters behind the mark were settled. Raises LinkError.
        """
        spans = {queue: span for queue, span in (await self.spans()).items() if span.begin < span.end}
        self._marks = {queue: _Mark(span.mark) for queue, span in spans.items()}
        reader, ends = self._reader, {queue: span.end for queue, span in spans.items()}
        reader.assign(list(spans))
        for queue, span in spans.items():
            await reader.seek(queue, span.begin if settled else span.mark)
        while ends:
            for letter in await reader.poll(_POLL_MS, _AT_ONCE):
                queue = letter.message_queue
                if letter.queue_offset < ends.get(queue, 0):
                    self._marks[queue].read(letter.queue_offset)
                    yield letter
            for queue in [queue for queue, end in ends.items() if await reader.position(queue) >= end]:
                del ends[queue]

    async def send_again(
        self, letter: StoredMessage, *, body: bytes | None = None, topic: str | None = None
    ) -> SendResult:
        """Send it to its group alone, as if it had never failed: its tries count from the beginning.

        `body`: in place of its own. `topic`: send it there, to all groups that read this topic. It keeps its message
        id, keys, tag and your properties. Raises NoRoute, SendFailed, RemoteError.
        """
        target = topic or retry_topic(self.group)
        properties = {name: value for name, value in letter.properties.items() if _is_kept(name)}
        if topic is None:
            properties[property_names.RETRY_TOPIC] = letter.retry_topic or letter.topic
        new_body = letter.body if body is None else body
        result = await self._producer.send(Message.with_properties(target, new_body, properties, flag=letter.flag))
        await self.drop(letter)
        return result

    async def drop(self, letter: StoredMessage) -> None:
        """Settle it without sending it: it is not read again. Its record stays until the retention deletes it."""
        queue = letter.message_queue
        if queue in self._marks and (mark := self._marks[queue].settle(letter.queue_offset)) is not None:
            await self._reader.commit({queue: mark})


def _is_kept(name: str) -> bool:
    return name in _KEPT or name not in property_names.SYSTEM
