"""Pulls one range of a queue, with many pulls in flight where there is no filter.

Owns        the position in the range, how many messages a pull asks for, how many pulls run at once.
Must not know   Arrow, the consequences of a loss.

Queue offsets are dense, so without a filter the offsets of the next hundred pulls are known before the first is
answered: a chunk is cut into pieces that are pulled all at once. With a filter each answer says where the next begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from rocketlake.spark.source.brokers import Bounds, Brokers, Pulled, PullOutcome, with_retries
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange

__all__ = ["CHUNKS_BETWEEN_TRIALS", "CHUNK_BYTES", "CHUNK_RECORDS", "Answer", "Chunk", "RangeWalk"]

# Larger batches cost Spark more per row than they save.
CHUNK_RECORDS = 8192
CHUNK_BYTES = 2 << 20
_BYTES_MAX = 2 * CHUNK_BYTES
"""A chunk ends early at this size: messages that suddenly grow must not fill the memory."""
_PULLS_AT_ONCE = 16
_PULLS_PER_CHUNK = 128
_FIRST_STRIDE = 32
CHUNKS_BETWEEN_TRIALS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The records of one pull: offsets [start, end), and perhaps more up to the answer's `next_offset`."""

    start: int
    end: int
    next_offset: int
    data: bytes | memoryview


@dataclass(slots=True)
class _Piece:
    """Offsets [start, end) of a chunk; offsets before `position` are done."""

    position: int
    end: int
    answers: list[Answer] = field(default_factory=list)


@dataclass(slots=True)
class Chunk:
    """Answers that cover offsets [start, end), in queue order; `gone`: parts that the broker says it does not hold.

    `whole`: the records of all answers, where they lie side by side in memory.
    """

    start: int
    end: int
    answers: list[Answer] = field(default_factory=list)
    gone: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    whole: memoryview | None = None

    def add(self, answer: Answer) -> None:
        """Put an answer behind the others."""
        self.answers.append(answer)
        self.size += len(answer.data)


class RangeWalk:
    """The position in a range, moved by pulls."""

    def __init__(self, brokers: Brokers, wanted: QueueRange, options: SourceOptions) -> None:
        self._brokers = brokers
        self.wanted = wanted
        self._options = options
        self._position = wanted.start
        self._stride = min(_FIRST_STRIDE, options.pull_batch_size)
        self._record_bytes = 0.0
        self._bytes = 0
        self._taken_most = 0
        self._is_short = False
        self._chunks = 0
        self._trial_after = 1
        self.bounds = Bounds(0, 0)

    @property
    def position(self) -> int:
        """Offsets before this one are done."""
        return self._position

    def move_to(self, position: int) -> None:
        """Offsets before `position` were read elsewhere. Not while a chunk is on its way."""
        self._position = position

    async def next_chunk(self) -> Chunk | None:
        """The next part of the range; None after its end."""
        if self._position >= self.wanted.end:
            return None
        return await (self._filtered() if self._options.is_filtered else self._dense())

    # -- without a filter

    async def _dense(self) -> Chunk:
        chunk = Chunk(self._position, min(self.wanted.end, self._position + self._records_at_once()))
        self._bytes, self._taken_most, self._is_short = 0, 0, False
        edges = [*range(chunk.start, chunk.end, self._stride), chunk.end]
        pieces = [_Piece(low, high) for low, high in pairwise(edges)]
        waiting = iter(pieces)
        pulls = (self._pull_pieces(waiting) for _ in range(min(_PULLS_AT_ONCE, len(pieces))))
        # Raise the first error in the queue, not the first in time: so it is the same at each try.
        for problem in await asyncio.gather(*pulls, return_exceptions=True):
            if problem is not None:
                raise problem
        for piece in pieces:
            for answer in piece.answers:
                chunk.add(answer)
            if piece.position < piece.end:
                chunk.end = piece.position
                break
        self._position = chunk.end
        self._adapt(chunk)
        return chunk

    def _records_at_once(self) -> int:
        if not self._record_bytes:
            return self._stride
        fitting = int(CHUNK_BYTES / self._record_bytes)
        return max(1, min(CHUNK_RECORDS, fitting, self._stride * _PULLS_PER_CHUNK))

    def _adapt(self, chunk: Chunk) -> None:
        """Ask for as many messages per pull as the broker gives; it has limits by count and by bytes."""
        if chunk.size:
            self._record_bytes = chunk.size / (chunk.end - chunk.start)
        if self._is_short:
            self._stride, self._chunks = max(1, self._taken_most), 1
            self._trial_after = CHUNKS_BETWEEN_TRIALS
        elif self._chunks % self._trial_after == 0:
            self._stride = min(self._stride * 2, self._options.pull_batch_size)
        self._chunks += 1

    async def _pull_pieces(self, waiting: Iterator[_Piece]) -> None:
        for piece in waiting:
            await self._pull_piece(piece)
            if self._is_full:
                return

    @property
    def _is_full(self) -> bool:
        # The first pull of a range only shows how large messages are.
        return self._bytes > (_BYTES_MAX if self._record_bytes else 0)

    async def _pull_piece(self, piece: _Piece) -> None:
        """Pull a piece to its end; offsets that the broker does not hold are left out and count as done."""
        fruitless = 0
        while piece.position < piece.end and not (self._is_full and piece.answers):
            before = piece.position
            pulled = await self._pull(before, piece.end - before)
            if pulled.outcome is PullOutcome.FOUND:
                piece.position = min(max(before, pulled.next_offset), piece.end)
                piece.answers.append(Answer(before, piece.position, pulled.next_offset, pulled.data))
                self._bytes += len(pulled.data)
                self._taken_most = max(self._taken_most, piece.position - before)
                self._is_short |= piece.position < piece.end
            elif pulled.outcome is PullOutcome.NOTHING_MATCHED:
                # Nothing was filtered: the broker passes over records that it cannot read.
                piece.position = min(max(before, pulled.next_offset), piece.end)
            elif pulled.outcome is PullOutcome.OUT_OF_RANGE:
                piece.position = min(max(before, pulled.bounds.low), piece.end)
            fruitless = 0 if piece.position > before else fruitless + 1
            if fruitless and not await self._try_again(fruitless):
                piece.position = piece.end

    # -- with a filter

    async def _filtered(self) -> Chunk:
        chunk = Chunk(self._position, self._position)
        records = fruitless = 0
        while self._position < self.wanted.end and chunk.size < CHUNK_BYTES and records < CHUNK_RECORDS:
            before = self._position
            pulled = await self._pull(before, self._options.pull_batch_size)
            if pulled.outcome in (PullOutcome.FOUND, PullOutcome.NOTHING_MATCHED):
                self._position = max(before, pulled.next_offset)
            if pulled.outcome is PullOutcome.FOUND:
                end = min(self._position, self.wanted.end)
                chunk.add(Answer(before, end, pulled.next_offset, pulled.data))
            elif pulled.outcome is PullOutcome.OUT_OF_RANGE and pulled.bounds.low > before:
                self._position = min(pulled.bounds.low, self.wanted.end)
                chunk.gone.append((before, self._position))
            records += self._position - before
            fruitless = 0 if self._position > before else fruitless + 1
            if fruitless and not await self._try_again(fruitless):
                self._position = self.wanted.end
                chunk.gone.append((before, self._position))
        chunk.end = self._position = min(self._position, self.wanted.end)
        return chunk

    # -- both

    async def _pull(self, offset: int, count: int) -> Pulled:
        wanted = self.wanted.queue
        pulled = await with_retries(
            self._brokers,
            self._options,
            f"reading {describe(wanted)} at offset {offset}",
            lambda: self._brokers.pull(wanted, offset, count),
        )
        self.bounds = pulled.bounds
        return pulled

    async def _try_again(self, fruitless: int) -> bool:
        """A broker that just came back may not yet see the end of its own log: ask some more times before giving up."""
        if fruitless > self._options.retries:
            return False
        await self._brokers.sleep(self._options.retry_interval_ms / 1000)
        return True
