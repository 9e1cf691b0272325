"""Entries that wait in memory for a file: while queues cannot be synced, and while the log is cut."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.errors import StoreError
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.store.config import StoreConfig
from rocketlake.store.late_files import FileLate
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus, PutMessage, PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, put_ok

BATCH = encode_batch([Message("T", b"x") for _ in range(1000)])
BATCHES_HELD = 40
"""More than one tail holds."""


async def store_with(world: World, made: HandWorker, *, by: str, log_file_bytes: int = 1 << 16) -> MessageStore:
    """Started; its worker of the name `by` is run by hand."""

    def workers(name: str) -> Worker:
        return made if name == by else InlineWorker(name)

    config = StoreConfig(
        commit_log_file_bytes=log_file_bytes, consume_queue_file_bytes=200, index_slots=11, index_entries=100
    )
    store = MessageStore(ROOT, config, files=world.files, clock=world.clock, workers=workers)
    world.opened.append(store)
    await store.start()
    return store


async def test_no_message_is_taken_that_waits_for_a_sync_which_never_comes(world: World) -> None:
    store = await world.started(commit_log_file_bytes=1 << 24, queue_flush_thorough_interval_ms=1000)
    put_ok(store, b"a")
    world.files.plan.add(Fault("sync", "consumequeue"))
    await world.clock.run_for(5000)
    world.files.plan.clear()
    for _ in range(BATCHES_HELD):
        result = store.put_batch(PutMessage("T", 0, BATCH))
        await world.clock.run_for(100)
        if result.status is not PutStatus.OK:
            break
    assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "restart the broker" in result.reason


class HeldFiles(HandWorker):
    """Makes queue files, but none of topic B."""

    def run_others(self) -> None:
        """Report all but those of B; a file is held in the path that its call was given."""
        for _ in range(len(self.pending)):
            call, done = self.pending.popleft()
            cells = [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]
            if any(isinstance(cell, Path) and "B" in cell.parts for cell in cells):
                self.pending.append((call, done))
            else:
                self.pending.appendleft((call, done))
                self.run_one()


async def test_a_cut_does_not_make_entries_safe_that_came_after_a_round_was_due(world: World) -> None:
    makes = HeldFiles()
    store = await store_with(world, makes, by="store-queue-files", log_file_bytes=4096)
    put_ok(store, b"a", topic="A")
    store.upkeep.queue_flush.flush(thorough=True)
    await world.clock.settle()
    put_ok(store, b"b", topic="B")
    await world.clock.run_for(5000)
    for _ in range(60):
        put_ok(store, b"x" * 500, topic="A")
        await world.clock.run_for(50)
    end = put_ok(store, b"cut", topic="A")[0].physical_offset
    cut = asyncio.ensure_future(store.cut(end))
    await world.clock.settle()
    makes.run_others()
    await cut
    for _ in range(3):
        store.upkeep.queue_flush.flush(thorough=False)
        await world.clock.settle()
        makes.run_others()
        await world.clock.settle()
    store.checkpoint.write(store.checkpoint.encode())
    await world.killed()
    again = await world.started()
    assert bodies_of(again, "B") == [b"b"]


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_file_that_a_cut_has_made_needless_does_not_lie_behind_a_gap(world: World, is_made: bool) -> None:
    makes = HandWorker()
    store = await store_with(world, makes, by="store-queue-files")
    results = []
    for _ in range(3):  # files of ten entries
        results += put_ok(store, *[b"x"] * 10)
        makes.run_all()
        store.queues.flush()
    put_ok(store, b"of the fourth file")
    with pytest.raises(FileLate):
        store.queues.write_tails()
    assert makes.pending
    if is_made:
        makes.call_one()  # the worker has made the file, and the loop has not heard of it
    cut = asyncio.ensure_future(store.cut(results[5].physical_offset))
    await world.clock.settle()
    assert not cut.done()
    while makes.ended:
        makes.report_one()
    makes.run_all()
    await cut
    assert world.disk.list_dir(ROOT / "consumequeue/T/0") == [f"{0:020d}"]
    await store.stop()
    again = await world.started(commit_log_file_bytes=1 << 16)
    assert bodies_of(again) == [b"x"] * 5


async def test_what_is_confirmed_while_a_cut_waits_for_the_workers_is_not_cut(world: World) -> None:
    makes = HandWorker()
    store = await store_with(world, makes, by="store-files")
    end = put_ok(store, b"a", b"b")[1].physical_offset
    cut = asyncio.ensure_future(store.cut(end))
    await world.clock.settle()
    store.durability.confirmed.advance(store.max_physical_offset)
    makes.run_all()
    with pytest.raises(StoreError, match="is confirmed"):
        await cut
    assert (store.not_writable_reason, bodies_of(store)) == ("", [b"a", b"b"])


async def test_a_stop_asks_no_worker_that_is_closed(tmp_path: Path) -> None:
    """Dispatch goes on in turns of the loop while the workers are closed one after the other."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
    config = StoreConfig(consume_queue_file_bytes=400, index_slots=11, index_entries=200)
    store = MessageStore(tmp_path, config)
    await store.start()
    for number in range(3000):
        put_ok(store, b"x", topic=f"T{number % 7}")
        assert store.put(PutMessage("K", 0, b"k", b"KEYS\x01k\x02")).status is PutStatus.OK
    await store.stop()
    assert errors == []
    assert not (tmp_path / "abort").exists()


async def test_a_queue_file_that_cannot_be_opened_costs_its_readers_only(world: World) -> None:
    store = await world.started()
    put_ok(store, b"a", topic="Bad")
    put_ok(store, b"b", topic="Good")
    await world.clock.run_for(100)
    await store.stop()
    world.opened.clear()
    store = await world.started()
    store.queues._open.limit = 1  # the file that is used next takes the place of the other one
    put_ok(store, *[b"b"] * 1200, topic="Good")
    store.upkeep.queue_flush.flush(thorough=True)
    await world.clock.run_for(100)
    world.files.plan.add(Fault("open", "consumequeue/Bad"))
    with pytest.raises((OSError, StoreError)):
        for _ in range(3):  # the first ones find that a worker opens the file
            assert store.get("Bad", 0, 0, 32, 1 << 20, wait=False).status is GetStatus.NOT_IN_MEMORY
            await world.clock.run_for(1000)
    put_ok(store, b"c", topic="Good")
    assert store.max_offset("Good", 0) == 1202
    world.files.plan.clear()
    await world.clock.run_for(3000)
    assert bodies_of(store, "Bad") == [b"a"]
