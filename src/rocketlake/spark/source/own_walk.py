"""Pulls one range over a link of its own into one buffer, as long as each answer is what is usual: the next records.

Owns        the pulls that are on their way, the buffer of a chunk, when the link is left.
Must not know   retries, losses, filters (range_walk.py), Arrow.

The thread of the task waits for the answers itself: no event loop, no thread to wake, no copy of an answer. While it
makes rows of a chunk, the broker already answers the next pulls. Whatever else comes (a refusal, a hole, a broken link,
silence) ends this way of reading; what came before is a chunk, and the range's walk asks for the rest in its own way.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from contextlib import closing

from rocketlake.base.errors import LinkError, ProtocolError, RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.spark.source.brokers import Pulled, PullLink, PullOutcome
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.range_walk import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    CHUNKS_BETWEEN_TRIALS,
    Answer,
    Chunk,
    RangeWalk,
)

__all__ = ["OwnWalk"]

log = get_logger(__name__)

_PULLS_AT_ONCE = 4
_BUFFER_BYTES = 2 * CHUNK_BYTES


class OwnWalk:
    """The position of a range's walk, moved by pulls over `link`."""

    def __init__(self, link: PullLink, walk: RangeWalk, most: int) -> None:
        """`most`: messages that one pull may ask for."""
        self._link = link
        self._walk = walk
        self._most = most
        self._stride = most
        self._at_once = 1  # the first answer shows how many messages the broker gives
        self._ahead = deque([(walk.position, walk.wanted.end)])
        """Offsets that were not asked for yet."""
        self._asked: list[tuple[int, int, int]] = []
        """Pulls on their way, by offset: start, end, number."""
        self._early: dict[int, tuple[Pulled, bytearray]] = {}
        """Answers that came before those in front of them: a broker may have to read these from its disk."""
        self._room = memoryview(bytearray(_BUFFER_BYTES))
        """Used again for each chunk: fresh memory costs as much as what is copied into it."""
        self._used = 0
        self._chunks = 0
        self._trial_at = 0

    def chunks(self) -> Iterator[Chunk]:
        """Chunks up to the end of the range, or to where the link is left. Each is over when the next is asked for."""
        is_going = True
        with closing(self._link):
            while is_going and self._walk.position < self._walk.wanted.end and self._link.leads_to_master():
                chunk = Chunk(self._walk.position, self._walk.position)
                try:
                    is_going = self._fill(chunk)
                except (LinkError, ProtocolError, RemoteError) as error:
                    is_going = False
                    log.info("reading %s goes on over the common link: %s", describe(self._walk.wanted.queue), error)
                if chunk.answers:
                    chunk.whole = self._room[: chunk.size]
                    self._chunks += 1
                    self._walk.move_to(chunk.end)
                    yield chunk

    def _fill(self, chunk: Chunk) -> bool:
        """Answers, one behind the other, until the chunk is large enough. False: the next one is not the usual one."""
        self._used = 0
        while self._ask():
            start, end, number = self._asked[0]
            if chunk.answers and _is_enough(chunk, end):
                return True
            found = self._answer(number)
            if found is None:
                return True
            pulled, data = found
            taken = min(pulled.next_offset, end)
            if pulled.outcome is not PullOutcome.FOUND or taken <= start:
                return False
            del self._asked[0]
            if taken < end:
                self._ahead.appendleft((taken, end))
            self._learn(end - start, taken - start)
            self._walk.bounds = pulled.bounds
            chunk.add(Answer(start, taken, pulled.next_offset, data))
            chunk.end = taken
        return True

    def _ask(self) -> bool:
        """Keep some pulls on their way. False: all is read."""
        while self._ahead and len(self._asked) < self._at_once:
            start, end = self._ahead.popleft()
            count = self._stride
            if count < self._most and self._chunks >= self._trial_at:
                self._trial_at = self._chunks + CHUNKS_BETWEEN_TRIALS
                count = min(2 * count, self._most)
            if start + count < end:
                self._ahead.appendleft((start + count, end))
                end = start + count
            insort(self._asked, (start, end, self._link.ask(start, end - start)))
        return bool(self._asked)

    def _learn(self, asked: int, given: int) -> None:
        """Ask for as many messages per pull as the broker gives; it has limits by count and by bytes."""
        self._at_once = _PULLS_AT_ONCE
        if given < asked:
            if asked >= self._stride:
                self._stride, self._trial_at = given, self._chunks + CHUNKS_BETWEEN_TRIALS
        elif asked > self._stride:
            self._stride, self._trial_at = asked, self._chunks + 1

    def _answer(self, number: int) -> tuple[Pulled, memoryview] | None:
        """The answer to this pull, its records behind those of the chunk. None: they do not fit there."""
        while number not in self._early:
            found, pulled, size = self._link.head()
            if found == number and self._used + size <= len(self._room):
                place = self._place(size)
                self._link.read(place)
                return pulled, place
            if found in self._early or all(found != each for _, _, each in self._asked):
                raise ProtocolError(f"an answer to pull {found}, which does not wait for one")
            body = bytearray(size)
            self._link.read(memoryview(body))
            self._early[found] = pulled, body
        pulled, body = self._early[number]
        if self._used + len(body) > len(self._room):
            if self._used:
                return None
            self._room = memoryview(bytearray(len(body)))
        del self._early[number]
        place = self._place(len(body))
        place[:] = body
        return pulled, place

    def _place(self, size: int) -> memoryview:
        self._used += size
        return self._room[self._used - size : self._used]


def _is_enough(chunk: Chunk, end: int) -> bool:
    """True if a chunk up to offset `end` would be too large, with records as large as those that it has."""
    rows, more = chunk.end - chunk.start, end - chunk.start
    return more > CHUNK_RECORDS or chunk.size * more > CHUNK_BYTES * rows
