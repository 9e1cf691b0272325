"""Lines of standard input as messages: read on a thread, sent by the batch.

Owns        cutting bytes into lines, how many lines go out together, the count after an error or Ctrl-C.
Must not know   options of the command line.

A terminal and a pipe may be silent for ever while the event loop must go on (heartbeats, Ctrl-C): so a thread reads.
The thread reads the bare file, not Python's buffer, whose lock would keep the process from ending while a read waits.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from rocketlake.base.errors import RocketLakeError

if TYPE_CHECKING:
    from rocketlake.client.calls.send import SendResult
    from rocketlake.client.producer.producer import Producer
    from rocketlake.model.message import Message

__all__ = ["Sending", "lines_of_stdin"]

_CHUNK_BYTES = 1 << 16
_BATCH_LINES = 512
_CHUNKS_AHEAD = 16


class Sending:
    """Sends batches of messages one after the other; `stored` counts the messages that are as safe as brokers ask.

    The first one that is not ends it (NotSafe).
    """

    def __init__(self, producer: Producer, order_by: str | None = None) -> None:
        """`order_by`: messages with the same text keep their order."""
        self.stored = 0
        self.on_way = 0
        """Messages sent and not answered: whether brokers have stored them is not known."""
        self._producer = producer
        self._order_by = order_by

    async def send(self, messages: Sequence[Message]) -> None:
        """Send the lines in order: in few requests, or one by one where a batch is not allowed."""
        from rocketlake.client.errors import BatchFailed

        if len(messages) == 1 or messages[0].is_delayed:
            for message in messages:
                self.on_way = 1
                self._count(message.topic, [await self._producer.send(message, key=self._order_by)])
            return
        self.on_way = len(messages)
        topic = messages[0].topic
        try:
            results = await self._producer.send_batch(messages, key=self._order_by)
        except BatchFailed as error:
            self._count(topic, cast("Sequence[SendResult]", error.sent))
            raise error.__cause__ or error from None
        self._count(topic, results)

    def _count(self, topic: str, results: Sequence[SendResult]) -> None:
        from rocketlake.client.calls.send import not_safe

        self.on_way = 0
        late = not_safe(topic, results)
        self.stored += len(results) - (late.count if late else 0)
        if late:
            raise late


async def lines_of_stdin() -> AsyncIterator[list[bytes]]:
    """Lines as they come, without line ends; empty lines are left out, for brokers refuse them."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)
    loop = asyncio.get_running_loop()
    bare = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    threading.Thread(
        target=_read, args=(bare.read, room, lambda chunk: _hand_over(loop, chunks, chunk)), daemon=True
    ).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        if isinstance(chunk, OSError):
            raise RocketLakeError(
                f"standard input cannot be read: {chunk.strerror}", hint="look at the command or file that feeds it"
            )
        *whole, rest = (rest + chunk).split(b"\n")
        for part in _parts([line for each in whole if (line := each.rstrip(b"\r"))]):
            yield part
    if line := rest.rstrip(b"\r"):
        yield [line]


def _read(
    read: Callable[[int], bytes], room: threading.Semaphore, hand_over: Callable[[bytes | OSError], bool]
) -> None:
    is_wanted = True
    chunk = b"-"
    while chunk and is_wanted:
        room.acquire()
        try:
            chunk = read(_CHUNK_BYTES)
        except OSError as error:
            hand_over(error)
            return
        is_wanted = hand_over(chunk)


def _hand_over(loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes | OSError], chunk: bytes | OSError) -> bool:
    try:
        loop.call_soon_threadsafe(chunks.put_nowait, chunk)
    except RuntimeError:  # the loop was closed: the command has ended
        return False
    return True


def _parts(lines: list[bytes]) -> Iterator[list[bytes]]:
    for first in range(0, len(lines), _BATCH_LINES):
        yield lines[first : first + _BATCH_LINES]
