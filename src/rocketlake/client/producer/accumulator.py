"""Background batches: messages that are sent at the same time go to the broker together.

Owns        which messages share a batch, how long a batch waits for more of them, how many bytes are held; the result
            or the error of each message.
Must not know   attempts (attempts.py), which messages are refused (message_check.py), the tasks that send.

A batch holds messages of one topic and, where the callers chose it, of one queue. It goes out when another message like
its last one would not fit, when `auto_batch_delay_ms` are over, or when the next message cannot share it. So the
messages of a queue go out in the order in which they came. These go alone, as without batches: messages for a time,
half messages, answers, those of retry topics, and those that are compressed (entries of a batch cannot be).

Bytes are held from the moment a message has room until its end is known; the messages that find no room wait in line.
The time limit of a send begins when its batch goes out.

A batch that a broker refuses for good is sent again message by message, because one of them may be the reason. Not so
in a queue of the callers' choice: later messages are on their way there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.service import Service
from rocketlake.client.calls.answer import SENT_TO_ANOTHER_BROKER
from rocketlake.client.calls.send import Outgoing, SendResult
from rocketlake.client.config import ProducerConfig
from rocketlake.client.errors import SendFailed
from rocketlake.client.producer.attempts import Attempts, Deadline
from rocketlake.client.producer.batch import part_of, results_of_batch
from rocketlake.codec.record_batch import entry_parts
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN, RecordError
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX

__all__ = ["Accumulator"]

_ALONE = names.TIMERS | {
    names.DELAY, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.MESSAGE_TYPE, names.PRIORITY,
    names.LITE_TOPIC, names.PRODUCER_SEQUENCE, names.INNER_NUM, names.INNER_BASE, names.INNER_MULTI_DISPATCH,
}  # fmt: skip
"""The brokers treat a message with one of these properties in a way of its own."""

_Key = tuple[str, MessageQueue | None]
Parts = tuple[bytes, ...]


class _Entry(msgspec.Struct, gc=False):
    """One message and the end of its send. `parts` are its bytes in a batch, none if it goes alone."""

    message: Message
    fixed: MessageQueue | None
    limit_ms: int
    wait: str | None
    parts: Parts
    size: int
    end: asyncio.Future[SendResult]


class _Batch:
    """Messages that go out together, before `due` (monotonic seconds)."""

    __slots__ = ("due", "entries", "fixed", "limit_ms", "size", "wait")

    def __init__(self, first: _Entry, due: float = 0.0) -> None:
        self.due = due
        self.entries = [first]
        self.size = first.size
        self.fixed = first.fixed
        self.limit_ms = first.limit_ms
        self.wait = first.wait

    def waited_for(self) -> list[_Entry]:
        """The messages whose callers have not given them up."""
        return [entry for entry in self.entries if not entry.end.done()]


class Accumulator(Service):
    """The background batches of one producer. `send` gives the future of a message's result."""

    def __init__(
        self,
        name: str,
        config: ProducerConfig,
        attempts: Attempts,
        clock: Clock,
        *,
        make_key: Callable[[], str],
        prepare: Callable[[Message], Outgoing],
    ) -> None:
        """`make_key` makes unique keys, `prepare` makes a message ready to go alone."""
        super().__init__(name, clock)
        self._attempts = attempts
        self._make_key = make_key
        self._prepare = prepare
        self._delay = config.auto_batch_delay_ms / 1000
        self._batch_bytes = min(config.auto_batch_bytes_max, config.message_bytes_max)
        self._alone_over = min(max(config.compress_over_bytes, 1), self._batch_bytes)
        self._room = config.auto_batch_total_bytes_max
        self._held = 0
        self._hurries = 0
        self._line: deque[_Entry] = deque()
        """Messages that wait for room."""
        self._open: dict[_Key, _Batch] = {}
        """Batches that wait for more messages, oldest first."""
        self._opened: asyncio.Future[None] | None = None
        self._new_end: Callable[[], asyncio.Future[SendResult]]
        self._sending: dict[_Batch, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """From now on batches that have waited long enough go out."""
        await super().start()
        self._new_end = asyncio.get_running_loop().create_future  # Python 3.11 asks Linux for each running loop
        self.keep("batches", self._send_due)

    async def stop(self) -> None:
        """Send everything and wait for its end. To be called when no more messages come."""
        try:
            with self.hurried():
                while ends := self._ends():
                    await asyncio.wait(ends)
        finally:
            await super().stop()
            _give_up(self._entries())  # only if the stop was cut short

    def send(self, message: Message, fixed: MessageQueue | None, limit_ms: int) -> asyncio.Future[SendResult]:
        """Take the message, which the caller leaves alone from now on. A cancelled future takes it back until it goes
        out; afterwards it changes nothing.
        """
        parts = self._parts(message)
        size = BATCH_ENTRY_BYTES_MIN + len(message.body) + (len(parts[-1]) if parts else 0)
        end = self._new_end()
        entry = _Entry(message, fixed, limit_ms, message.properties.get(names.WAIT), parts, size, end)
        if self._line or (self._held and self._held + size > self._room):
            self._line.append(entry)
        else:
            self._take(entry)
        return end

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Inside, batches do not wait for more messages."""
        self._hurries += 1
        try:
            for key, batch in list(self._open.items()):
                self._close(key, batch)
            yield
        finally:
            self._hurries -= 1

    async def flush(self) -> None:
        """Wait for the end of all messages that are here now."""
        with self.hurried():
            if ends := self._ends():
                await asyncio.wait(ends)

    # from a message to its batch

    def _parts(self, message: Message) -> Parts:
        properties = message.properties
        if (
            len(message.body) >= self._alone_over
            or not _ALONE.isdisjoint(properties)
            or message.topic.startswith(RETRY_PREFIX)
        ):
            return ()
        if names.UNIQUE_KEY not in properties:
            properties[names.UNIQUE_KEY] = self._make_key()
        try:
            return entry_parts(message)
        except RecordError:
            return ()  # alone, the broker says what it thinks of so many properties

    def _take(self, entry: _Entry) -> None:
        size = entry.size
        self._held += size
        key = entry.message.topic, entry.fixed
        batch = self._open.get(key)
        if batch is not None and (
            not entry.parts
            or batch.size + size > self._batch_bytes
            or batch.limit_ms != entry.limit_ms
            or batch.wait != entry.wait
        ):
            self._close(key, batch)
            batch = None
        if not entry.parts:
            self._begin(_Batch(entry))
            return
        if batch is None:
            batch = self._open_batch(key, entry)
        else:
            batch.entries.append(entry)
            batch.size += size
        if batch.size + size > self._batch_bytes:
            self._close(key, batch)

    def _open_batch(self, key: _Key, first: _Entry) -> _Batch:
        batch = self._open[key] = _Batch(first, self._clock.monotonic() + self._delay)
        if self._hurries or not self._delay:
            asyncio.get_running_loop().call_soon(self._close, key, batch)
        elif self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        return batch

    def _close(self, key: _Key, batch: _Batch) -> None:
        """No more messages; nothing to do if it has gone out already."""
        if self._open.get(key) is batch:
            del self._open[key]
            self._begin(batch)

    def _begin(self, batch: _Batch) -> None:
        # Tasks begin in the order in which they are made: so batches of one queue go out in order.
        self._sending[batch] = self.spawn("batch", self._send(batch))

    async def _send_due(self) -> None:
        """One round of the duty: wait for the oldest open batch, and send what is due then."""
        if not self._open:
            self._opened = asyncio.get_running_loop().create_future()
            await self._opened
        oldest = next(iter(self._open.values()), None)
        if oldest is None:
            return
        await self._clock.sleep(oldest.due - self._clock.monotonic())
        now = self._clock.monotonic()
        for key, batch in [(key, batch) for key, batch in self._open.items() if batch.due <= now]:
            self._close(key, batch)

    # from a batch to the end of its messages

    async def _send(self, batch: _Batch) -> None:
        entries = batch.waited_for()
        try:
            if len(entries) == 1:
                await self._send_single(entries[0])
            elif entries:
                await self._send_together(batch, entries)
        except Exception as error:
            _fail(entries, error)
        except BaseException:
            _give_up(entries)
            raise
        finally:
            del self._sending[batch]
            self._free(batch.size)

    async def _send_single(self, entry: _Entry) -> None:
        outgoing = self._prepare(entry.message)
        deadline = self._deadline(entry.limit_ms)
        result = await self._attempts.send(outgoing, entry.fixed, deadline, (entry.message,))
        if not entry.end.done():
            entry.end.set_result(result)

    async def _send_together(self, batch: _Batch, entries: list[_Entry]) -> None:
        messages = [entry.message for entry in entries]
        part = part_of(messages, [part for entry in entries for part in entry.parts], self._make_key())
        try:
            first = await self._attempts.send(part.outgoing, batch.fixed, self._deadline(batch.limit_ms), messages)
        except RemoteError as error:
            if batch.fixed is not None or error.code in SENT_TO_ANOTHER_BROKER:
                raise
            await self._send_one_by_one(entries)
            return
        for entry, result in zip(entries, results_of_batch(first, part.message_ids), strict=True):
            if not entry.end.done():
                entry.end.set_result(result)

    async def _send_one_by_one(self, entries: list[_Entry]) -> None:
        for entry in entries:
            if not entry.end.done():
                try:
                    await self._send_single(entry)
                except Exception as error:
                    _fail([entry], error)

    def _deadline(self, limit_ms: int) -> Deadline:
        return Deadline(self._clock.monotonic() + limit_ms / 1000, limit_ms)

    def _free(self, size: int) -> None:
        """Bytes are no longer held: the first messages in line come in."""
        self._held -= size
        line = self._line
        while line and (line[0].end.done() or not self._held or self._held + line[0].size <= self._room):
            entry = line.popleft()
            if not entry.end.done():
                self._take(entry)

    # the end

    def _entries(self) -> Iterator[_Entry]:
        for batch in (*self._sending, *self._open.values()):
            yield from batch.entries
        yield from self._line

    def _ends(self) -> list[asyncio.Future[SendResult]]:
        return [entry.end for entry in self._entries() if not entry.end.done()]


def _give_up(entries: Iterable[_Entry]) -> None:
    """Nobody waits for ever."""
    for entry in entries:
        error = SendFailed(entry.message.topic, (), timeout_ms=entry.limit_ms, timed_out=False, is_stopped=True)
        _fail([entry], error)


def _fail(entries: Sequence[_Entry], error: Exception) -> None:
    """Each caller gets an error of its own: those who raise it again may write on it."""
    for entry in entries:
        if not entry.end.done():
            own = type(error).__new__(type(error), *error.args)
            own.__dict__.update(error.__dict__)
            own.__cause__ = error.__cause__
            entry.end.set_exception(own)
