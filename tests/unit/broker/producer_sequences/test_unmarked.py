"""A slave of Apache's master keeps the part of the log short that must be read for marks at a takeover."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.producer_sequences.catch_up import catch_up
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.broker.producer_sequences.unmarked import UnmarkedLog
from rocketlake.codec.sequence_mark import parse_mark
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

FAR = 600_000
TEXT = "q/1/0/0/9f2e"


class Room:
    """The log of a slave, and its table."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.clock, files = ManualClock(), files or MemoryFiles()
        config = StoreConfig(commit_log_file_bytes=4 << 20, index_slots=10, index_entries=100)
        self.syncs = HandWorker()

        def workers(name: str) -> Worker:
            return self.syncs if name == "store-flush" else InlineWorker(name)

        self.store = MessageStore(Path("/s"), config, files=files, clock=self.clock, workers=workers)
        self.table = ProducerSequences(
            Path("/s/p.json"),
            files,
            self.clock,
            lambda: LogEnds(self.store.max_physical_offset, self.store.flushed_offset),
            producers_max=10,
            keep_ms=10**9,
        )
        self.unmarked = UnmarkedLog(self.table, self.store, self.clock, FAR)

    def put(self, size: int, properties: bytes = b"") -> int:
        result = self.store.put(PutMessage("T", 0, bytes(size), properties))
        assert result.status is PutStatus.OK
        return result.next_offset

    async def stop_store(self) -> None:
        """Stop it; its end waits for the disk."""
        stopped = asyncio.create_task(self.store.stop())
        while not stopped.done():
            await self.clock.settle()
            self.syncs.run_all()
        await stopped


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    await room.store.start()
    room.table.follow()
    await room.unmarked.start()
    yield room
    await room.unmarked.stop()
    await room.store.stop()


async def test_the_place_follows_a_log_without_marks(room: Room) -> None:
    for _ in range(30):
        end = room.put(100_000)
    await room.clock.run_for(1000)
    room.syncs.run_all()
    await room.clock.run_for(4000)
    assert room.table.log_offset == end
    room.put(100_000)
    await room.clock.run_for(5000)
    assert room.table.log_offset == end, "a short end is left for the takeover"


async def test_a_start_goes_on_at_the_place_that_was_reached(room: Room) -> None:
    room.table.save()
    room.table.load()
    for _ in range(10):
        end = room.put(100_000)
    await room.clock.run_for(1000)
    room.syncs.run_all()
    await room.clock.run_for(4000)
    room.table.save()
    room.table.load()
    assert room.table.log_offset == end


async def test_what_is_not_on_disk_is_not_passed(room: Room) -> None:
    """A start after a power cut would find the place behind the end of the log, and read all of it."""
    for _ in range(9):
        end = room.put(100_000)
    await room.clock.run_for(5000)
    assert (room.table.log_offset, room.store.flushed_offset) == (0, 0)
    room.syncs.run_all()
    await room.clock.run_for(5000)
    assert room.table.log_offset == end


@pytest.mark.parametrize("across", [4, -3000])
async def test_no_mark_is_passed(room: Room, across: int) -> None:
    """Also one that lies across two pieces that are looked at."""
    empty = room.put(0)
    start = (1 << 20) - across - empty - 1  # so that the mark begins `across` bytes before the second piece
    assert room.put(start - 2 * empty) == start
    room.put(1, f"__RL_SEQ\x01{TEXT}\x02".encode())
    for _ in range(9):
        room.put(100_000)
    await room.clock.run_for(1000)
    room.syncs.run_all()
    await room.clock.run_for(4000)
    assert room.table.log_offset == 0
    catch_up(room.table, room.store, room.clock)
    assert room.table.next_number("T", 0, parse_mark(TEXT)) == 1


async def test_what_was_cut_while_it_was_looked_at_is_not_passed(room: Room) -> None:
    """The log grows past the old end with other messages, marked ones among them."""
    room.store.after_cut.append(room.table.log_was_cut)
    middle = room.put(100_000)
    for _ in range(8):
        end = room.put(100_000)
    await room.clock.run_for(1500)  # the end is not on disk
    cut = asyncio.create_task(room.store.cut(PhysicalOffset(middle)))
    while not cut.done():
        await room.clock.settle()
        room.syncs.run_all()
    await cut
    room.put(1, f"__RL_SEQ\x01{TEXT}\x02".encode())
    while room.store.max_physical_offset < end:
        room.put(100_000)
    for _ in range(3):
        await room.clock.run_for(2000)
        room.syncs.run_all()
    assert room.table.log_offset == 0
    catch_up(room.table, room.store, room.clock)
    assert room.table.next_number("T", 0, parse_mark(TEXT)) == 1


async def test_the_end_of_a_full_file_is_left_behind_when_the_file_was_loaded_again() -> None:
    """All of it can be read then, so that a piece ends where the file does."""
    files = MemoryFiles()
    room = Room(files)
    await room.store.start()
    while room.store.max_physical_offset < 6_000_000:
        end = room.put(100_000)
    await room.stop_store()
    room = Room(files)
    await room.store.start()
    room.table.log_offset = 0
    await room.unmarked.start()
    await room.clock.run_for(3000)
    assert room.table.log_offset == end
    await room.unmarked.stop()
    await room.stop_store()
