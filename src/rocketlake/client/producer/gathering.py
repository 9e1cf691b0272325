"""Messages that wait to go out together: who shares a batch, how many bytes are held, who waits for room.

Owns        which messages share a batch, how many bytes that is; the bytes that are held, the line of those without
            room; the end of a send that nobody awaits.
Must not know   time, tasks, requests (accumulator.py).

A compiled twin: its calls are those that each message takes, all others of a batch are made once for many messages.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from rocketlake.base.logs import get_logger
from rocketlake.client.calls.send import SendResult
from rocketlake.client.user_functions import is_for_caller
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN, PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX

__all__ = ["Background", "Batch", "CallbackEnd", "End", "Entry", "Gathering", "give_keys", "tell", "tell_callback"]

log = get_logger(__name__)

_ALONE = names.TIMERS | {
    names.DELAY, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.MESSAGE_TYPE, names.PRIORITY,
    names.LITE_TOPIC, names.PRODUCER_SEQUENCE, names.INNER_NUM, names.INNER_BASE, names.INNER_MULTI_DISPATCH,
}  # fmt: skip
"""The brokers treat a message with one of these properties in a way of its own."""

_ENTRY_BYTES_MIN = BATCH_ENTRY_BYTES_MIN
_TEXT_BYTES_MAX = PROPERTIES_BYTES_MAX
_KEY_NAME = names.UNIQUE_KEY
_KEY_PAIR_BYTES = len(names.UNIQUE_KEY) + 2
_WAIT = names.WAIT
_RETRY = RETRY_PREFIX

Callback = Callable[[SendResult | None, BaseException | None], None]
"""Called with the result or with the error of a send; the other argument is None."""


class End(Protocol):
    """Who is told how the send of one message ended: a future, or a CallbackEnd."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Background:
    """The sends of one producer that nobody awaits: how many are on their way."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class CallbackEnd:
    """The end of a send that nobody awaits: a call of the user's function, in the context in which it was sent."""

    __slots__ = ("_background", "_callback", "_context", "_is_done")

    def __init__(self, background: Background, callback: Callback | None) -> None:
        self._background = background
        self._callback = callback
        self._context = None if callback is None else contextvars.copy_context()
        self._is_done = False
        background.count += 1

    def done(self) -> bool:
        """True once it is told."""
        return self._is_done

    def set_result(self, result: SendResult) -> None:
        """Tell the result."""
        self._tell(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Tell the error."""
        self._tell(None, error)

    def _tell(self, result: SendResult | None, error: BaseException | None) -> None:
        self._is_done = True
        self._background.count -= 1
        try:
            if self._context is None:
                tell_callback(None, result, error)
            else:
                self._context.run(tell_callback, self._callback, result, error)
        except BaseException as problem:  # the caller's: the other messages of the batch are told first
            asyncio.get_running_loop().call_soon(_raise, problem)


def tell_callback(callback: Callback | None, result: SendResult | None, error: BaseException | None) -> None:
    """Call it; without one, the log learns of a failure. Raises only what is for the caller, as Ctrl-C."""
    if callback is None:
        if error is not None:
            log.warning("background send failed: %s", error)
        return
    try:
        callback(result, error)
    except BaseException as problem:
        if is_for_caller(problem):
            raise
        log.exception("the callback of a background send failed")


def _raise(problem: BaseException) -> None:
    raise problem


class Entry:
    """One message and the end of its send.

    `text` are its properties in a batch, without the unique key unless the message came with one (`has_key`); None:
    the message goes alone.
    """

    __slots__ = ("end", "fixed", "has_key", "limit_ms", "message", "size", "text", "wait")

    def __init__(self, message: Message, fixed: MessageQueue | None, limit_ms: int, end: End) -> None:
        self.message = message
        self.fixed = fixed
        self.limit_ms = limit_ms
        self.end = end
        self.wait: str | None = None
        self.text: bytes | None = b""
        self.has_key = False
        self.size = 0


class Batch:
    """Messages that go out together, before `due` (monotonic seconds)."""

    __slots__ = ("due", "entries", "fixed", "key", "limit_ms", "size", "wait")

    def __init__(self, key: tuple[str, MessageQueue | None], first: Entry) -> None:
        self.key = key
        self.due = 0.0
        self.entries = [first]
        self.size = first.size
        self.fixed = first.fixed
        self.limit_ms = first.limit_ms
        self.wait = first.wait

    def waited_for(self) -> list[Entry]:
        """The messages whose callers have not given them up."""
        return [entry for entry in self.entries if not entry.end.done()]


class Gathering:
    """The messages of one producer, from their send until their batch has ended."""

    __slots__ = (
        "_alone_over",
        "_batch_bytes",
        "_began",
        "_held",
        "_key_bytes",
        "_line",
        "_open",
        "_opened",
        "_room",
        "new_end",
    )

    def __init__(
        self,
        *,
        batch_bytes: int,
        alone_over: int,
        room: int,
        key_bytes: int,
        opened: Callable[[Batch], object],
        began: Callable[[Batch], object],
    ) -> None:
        """Bytes: most of a batch; the body of a message that goes alone; all that are held; a unique key.

        `opened` is called with each batch that waits for more messages, `began` with each that waits no more.
        """
        self._batch_bytes = batch_bytes
        self._alone_over = alone_over
        self._room = room
        self._key_bytes = _KEY_PAIR_BYTES + key_bytes
        self._opened = opened
        self._began = began
        self.new_end: Callable[[], asyncio.Future[SendResult]] = asyncio.Future
        """Makes a future of the loop that runs: Python 3.11 asks Linux for it each time."""
        self._held = 0
        self._line: deque[Entry] = deque()
        """Messages that wait for room."""
        self._open: dict[tuple[str, MessageQueue | None], Batch] = {}
        """Batches that wait for more messages, oldest first."""

    def send(self, message: Message, fixed: MessageQueue | None, limit_ms: int) -> asyncio.Future[SendResult]:
        """The same as `take`; the future of its result. Cancelled, it takes the message back until that
        goes out; afterwards it changes nothing.
        """
        end: asyncio.Future[SendResult] = self.new_end()
        self.take(message, fixed, limit_ms, end)
        return end

    def take(self, message: Message, fixed: MessageQueue | None, limit_ms: int, end: End) -> None:
        """Take a message that nobody else changes. UsageError for properties that no text can hold."""
        entry = Entry(message, fixed, limit_ms, end)
        self._measure(entry)
        if self._line or (self._held and self._held + entry.size > self._room):
            self._line.append(entry)
        else:
            self._add(entry)

    def free(self, size: int) -> None:
        """Bytes are no longer held: the first messages in line come in."""
        self._held -= size
        line = self._line
        while line:
            entry = line[0]
            is_over = entry.end.done()
            if self._held and self._held + entry.size > self._room and not is_over:
                break
            line.popleft()
            if not is_over:
                self._add(entry)

    def close(self, batch: Batch) -> None:
        """No more messages; nothing to do if it has gone out already."""
        if self._open.get(batch.key) is batch:
            del self._open[batch.key]
            self._began(batch)

    def close_due(self, now: float) -> None:
        """Close the batches that have waited long enough."""
        for batch in list(self._open.values()):
            if batch.due <= now:
                self.close(batch)

    def next_due(self) -> float | None:
        """When the oldest open batch goes out; None without one."""
        for batch in self._open.values():
            return batch.due
        return None

    def entries(self) -> list[Entry]:
        """The messages that have not begun to go out."""
        waiting: list[Entry] = []
        for batch in self._open.values():
            waiting += batch.entries
        waiting += self._line
        return waiting

    def _measure(self, entry: Entry) -> None:
        """Its bytes, and whether it may share a batch."""
        message, body_bytes = entry.message, len(entry.message.body)
        properties = message.properties
        text_bytes = 0
        entry.wait = properties.get(_WAIT)
        if body_bytes >= self._alone_over or message.topic.startswith(_RETRY) or not _is_int32(message.flag):
            entry.text = None
        elif properties:
            if not _ALONE.isdisjoint(properties):
                entry.text = None
            else:
                entry.has_key = _KEY_NAME in properties
                entry.text = property_text.encode(properties)
                text_bytes = len(entry.text)
        if entry.text is not None and not entry.has_key:
            text_bytes += self._key_bytes
        if text_bytes > _TEXT_BYTES_MAX:
            entry.text = None  # alone, the broker says what it thinks of so many properties
        entry.size = _ENTRY_BYTES_MIN + body_bytes + (0 if entry.text is None else text_bytes)

    def _add(self, entry: Entry) -> None:
        size = entry.size
        self._held += size
        key = (entry.message.topic, entry.fixed)
        batch = self._open.get(key)
        if batch is not None and (
            entry.text is None
            or batch.size + size > self._batch_bytes
            or batch.limit_ms != entry.limit_ms
            or batch.wait != entry.wait
        ):
            self.close(batch)
            batch = None
        if entry.text is None:
            self._began(Batch(key, entry))
            return
        if batch is None:
            batch = self._open[key] = Batch(key, entry)
            self._opened(batch)
        else:
            batch.entries.append(entry)
            batch.size += size
        if batch.size + size > self._batch_bytes:
            self.close(batch)


def _is_int32(flag: object) -> bool:
    """No other flag has a place in a batch: it would spoil the messages beside it."""
    return isinstance(flag, int) and -0x80000000 <= flag <= 0x7FFFFFFF


Keyed = tuple[list[Message], list[bytes], list[str | None], list[str]]


def give_keys(entries: Sequence[Entry], keys: Sequence[str]) -> Keyed:
    """The messages of a batch, the texts of their properties, the keys behind the texts, the keys of all.

    Each message has one of `keys` from now on, unless it came with its own: that one stands in its text.
    """
    messages: list[Message] = []
    texts: list[bytes] = []
    behind: list[str | None] = []
    ids: list[str] = []
    for number, entry in enumerate(entries):
        message, key = entry.message, keys[number]
        if entry.has_key:
            key = message.properties[_KEY_NAME]
            behind.append(None)
        else:
            message.properties[_KEY_NAME] = key
            behind.append(key)
        messages.append(message)
        texts.append(entry.text or b"")
        ids.append(key)
    return messages, texts, behind, ids


def tell(entries: Sequence[Entry], results: Sequence[SendResult]) -> None:
    """Each message has its result, unless its caller has given it up."""
    for number, entry in enumerate(entries):
        if not entry.end.done():
            entry.end.set_result(results[number])
