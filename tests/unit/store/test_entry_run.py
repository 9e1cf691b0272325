"""Records that a replica appends together come into queues and index as if they came one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.worker import InlineWorker
from rocketlake.model.sys_flag import TRANSACTION_PREPARED
from rocketlake.store.config import StoreConfig
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import World, message


async def replica(world: World, name: str) -> MessageStore:
    config = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=101, index_entries=1000)
    store = MessageStore(Path(name), config, files=world.files, clock=world.clock, workers=InlineWorker)
    world.opened.append(store)
    await store.start()
    return store


def seen(store: MessageStore) -> list[object]:
    """Everything that readers and the next put find."""
    found: list[object] = []
    for topic in ("T", "U"):
        for queue_id in (0, 1):
            queue = store.queues.find(topic, queue_id)
            found.append(None if queue is None else (queue.next_offset, store.queue_entries(topic, queue_id, 0, 99)))  # type: ignore[arg-type]
    for number in range(40):
        hits = store.query("T", f"k{number}", 9, 0, 1 << 50).slices  # type: ignore[arg-type]
        found.append([bytes(hit) for hit in hits])
    return found


def fill(master: MessageStore) -> None:
    for number in range(40):
        flag = TRANSACTION_PREPARED if number % 9 == 4 else 0
        keys = f"KEYS\x01k{number} k{number % 3}\x02UNIQ_KEY\x01u{number}\x02".encode()
        topic = "U" if number % 5 == 0 else "T"
        master.put(message(b"%d" % number, topic=topic, queue_id=number % 2, properties=keys, sys_flag=flag))
        if number == 30:
            master.delete_topics(["U"])  # its queues begin with 0 again, in the same chunk


@pytest.mark.parametrize("is_readable", [True, False])
async def test_together_is_as_one_by_one(world: World, is_readable: bool) -> None:
    master = await world.started(commit_log_file_bytes=64 * 1024)
    fill(master)
    log = bytes(next(iter(master.log_views(0)))[1])  # type: ignore[arg-type]
    entries, _taken, _status = scan(memoryview(log), 0, False, ())  # type: ignore[arg-type]
    assert len({entry.store_ms for entry in entries}) == 1
    together, single = await replica(world, "/together"), await replica(world, "/single")
    for store in (together, single):
        if not is_readable:
            store.durability.demand(Demands(reads=(Stage.CONFIRMED,)))
    together.append_raw(log, 0)  # type: ignore[arg-type]
    for entry in entries:
        start = entry.physical_offset
        single.append_raw(log[start : start + entry.size], start)
    if not is_readable:
        half = entries[20].physical_offset
        for end in (half, len(log)):
            for store in (together, single):
                store.durability.advance(Stage.CONFIRMED, end)  # type: ignore[arg-type]
            await world.clock.settle()
            assert together.dispatched_offset == single.dispatched_offset == end
    await world.clock.settle()
    assert seen(together) == seen(single)
    assert (together.max_offset("T", 1), together.max_offset("U", 1)) == (14, 1)
