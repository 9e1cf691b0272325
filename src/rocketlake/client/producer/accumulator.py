"""Background batches: messages that are sent at the same time go to the broker together.

Owns        how long a batch waits for more messages, the request of each batch; the result or the error of each
            message.
Must not know   which messages share a batch (gathering.py), attempts (attempts.py), which messages are refused
            (message_check.py), the tasks that send.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.service import Service
from rocketlake.client.calls.answer import SENT_TO_ANOTHER_BROKER
from rocketlake.client.calls.send import Outgoing
from rocketlake.client.config import ProducerConfig
from rocketlake.client.errors import SendFailed
from rocketlake.client.producer.attempts import Attempts, Deadline
from rocketlake.client.producer.batch import results_of_batch, together
from rocketlake.client.producer.gathering import (
    Background,
    Batch,
    Callback,
    CallbackEnd,
    Entry,
    Gathering,
    give_keys,
    tell,
)
from rocketlake.model.message import Message
from rocketlake.model.message_id import UniqueKeyMaker

__all__ = ["Accumulator"]


class Accumulator(Service):
    """The background batches of one producer. `gathering.send` gives the future of a message's result."""

    def __init__(
        self,
        name: str,
        config: ProducerConfig,
        attempts: Attempts,
        clock: Clock,
        *,
        keys: UniqueKeyMaker,
        prepare: Callable[[Message], Outgoing],
    ) -> None:
        """`prepare` makes a message ready to go alone."""
        super().__init__(name, clock)
        self._attempts = attempts
        self._keys = keys
        self._prepare = prepare
        self._delay = config.auto_batch_delay_ms / 1000
        self._hurries = 0
        batch_bytes = min(config.auto_batch_bytes_max, config.message_bytes_max)
        self.gathering = Gathering(
            batch_bytes=batch_bytes,
            alone_over=min(max(config.compress_over_bytes, 1), batch_bytes),
            room=config.auto_batch_total_bytes_max,
            key_bytes=len(keys.make()),
            opened=self._opened,
            began=self._began,
        )
        self._background = Background()
        self._first: asyncio.Future[None] | None = None
        """Waits for a batch to be opened; none was."""
        self._news: asyncio.Future[None] | None = None
        """Waits for a batch to end."""
        self._sending: dict[Batch, None] = {}

    async def start(self) -> None:
        """From now on batches that have waited long enough go out."""
        await super().start()
        self.gathering.new_end = asyncio.get_running_loop().create_future
        self.keep("batches", self._send_due)

    async def stop(self) -> None:
        """Send everything and wait for its end. To be called when no more messages come."""
        try:
            with self.hurried():
                while entries := self._waited_for():
                    await self._over(entries)
        finally:
            await super().stop()
            _give_up(self._waited_for())  # only if the stop was cut short

    @property
    def in_background(self) -> int:
        """How many messages of `send_nowait` are on their way."""
        return self._background.count

    def send_nowait(self, message: Message, limit_ms: int, callback: Callback | None) -> None:
        """Take the message as `gathering.send` does. Without a future, which would cost as much as all the rest: the
        callback is told the end.
        """
        self.gathering.take(message, None, limit_ms, CallbackEnd(self._background, callback))

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Inside, batches do not wait for more messages."""
        self._hurries += 1
        try:
            self.gathering.close_due(float("inf"))
            yield
        finally:
            self._hurries -= 1

    async def flush(self) -> None:
        """Wait for the end of all messages that are here now."""
        with self.hurried():
            await self._over(self._waited_for())

    async def _over(self, entries: list[Entry]) -> None:
        """Wait for the end of each of these. The list is empty afterwards."""
        while entries:
            if entries[-1].end.done():
                entries.pop()
            else:
                if self._news is None:
                    self._news = asyncio.get_running_loop().create_future()
                await asyncio.wait((self._news,))

    def _waited_for(self) -> list[Entry]:
        entries = [entry for batch in self._sending for entry in batch.entries]
        return [entry for entry in entries + self.gathering.entries() if not entry.end.done()]

    # when a batch goes out

    def _opened(self, batch: Batch) -> None:
        batch.due = self._clock.monotonic() + self._delay
        if self._hurries or not self._delay:
            asyncio.get_running_loop().call_soon(self.gathering.close, batch)
        elif self._first is not None and not self._first.done():
            self._first.set_result(None)

    def _began(self, batch: Batch) -> None:
        # Tasks begin in the order in which they are made: so batches of one queue go out in order.
        self._sending[batch] = None
        self.spawn("batch", self._send(batch))

    async def _send_due(self) -> None:
        """One round of the duty: wait for the oldest open batch, and send what is due then."""
        if self.gathering.next_due() is None:
            self._first = asyncio.get_running_loop().create_future()
            await self._first
        due = self.gathering.next_due()
        if due is None:
            return
        await self._clock.sleep(due - self._clock.monotonic())
        self.gathering.close_due(self._clock.monotonic())

    # from a batch to the end of its messages

    async def _send(self, batch: Batch) -> None:
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
            self.gathering.free(batch.size)
            if self._news is not None:
                if not self._news.done():
                    self._news.set_result(None)
                self._news = None

    async def _send_single(self, entry: Entry) -> None:
        outgoing = self._prepare(entry.message)
        deadline = self._deadline(entry.limit_ms)
        result = await self._attempts.send(outgoing, entry.fixed, deadline, (entry.message,))
        if not entry.end.done():
            entry.end.set_result(result)

    async def _send_together(self, batch: Batch, entries: list[Entry]) -> None:
        batch_key, *keys = self._keys.make_run(1 + len(entries))
        messages, texts, behind, ids = give_keys(entries, keys)
        outgoing, deadline = together(messages, texts, behind, batch_key), self._deadline(batch.limit_ms)
        try:
            first = await self._attempts.send(outgoing, batch.fixed, deadline, messages)
        except RemoteError as error:
            if batch.fixed is not None or error.code in SENT_TO_ANOTHER_BROKER:
                raise
            await self._send_one_by_one(entries)
            return
        tell(entries, results_of_batch(first, ids))

    async def _send_one_by_one(self, entries: list[Entry]) -> None:
        for entry in entries:
            if not entry.end.done():
                try:
                    await self._send_single(entry)
                except Exception as error:
                    _fail([entry], error)

    def _deadline(self, limit_ms: int) -> Deadline:
        return Deadline(self._clock.monotonic() + limit_ms / 1000, limit_ms)


def _give_up(entries: Iterable[Entry]) -> None:
    """Nobody waits for ever."""
    for entry in entries:
        error = SendFailed(entry.message.topic, (), timeout_ms=entry.limit_ms, timed_out=False, is_stopped=True)
        _fail([entry], error)


def _fail(entries: Sequence[Entry], error: Exception) -> None:
    """Each caller gets an error of its own: those who raise it again may write on it."""
    for entry in entries:
        if not entry.end.done():
            own = type(error).__new__(type(error), *error.args)
            own.__dict__.update(error.__dict__)
            own.__cause__ = error.__cause__
            entry.end.set_exception(own)
