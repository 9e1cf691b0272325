"""A replica whose log begins in the middle of its master's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.worker import InlineWorker
from rocketlake.store.config import StoreConfig
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import World, bodies_of, put_ok

REPLICA = Path("/replica")


def replica(world: World) -> MessageStore:
    config = StoreConfig(commit_log_file_bytes=4096, consume_queue_file_bytes=200, index_slots=11, index_entries=100)
    store = MessageStore(REPLICA, config, files=world.files, clock=world.clock, workers=InlineWorker)
    world.opened.append(store)
    return store


@pytest.mark.parametrize("was_killed", [False, True])
async def test_a_log_that_begins_in_the_middle_is_opened_again(world: World, was_killed: bool) -> None:
    master = await world.started()
    put_ok(master, *[b"%d" % number * 500 for number in range(20)])
    third = master.log.list.files[2]
    _entries, taken, _status = scan(third.view[: third.wrote], third.start, False, ())
    data, begin = bytes(third.view[:taken]), third.start
    if was_killed:
        await replica(world).start()
        await world.killed()
    store = replica(world)
    await store.start()
    store.append_raw(data, begin)
    bodies = bodies_of(store)
    await store.stop()
    again = replica(world)
    await again.start()
    assert (again.min_physical_offset, again.max_physical_offset) == (begin, begin + taken)
    assert bodies and bodies_of(again) == bodies
    await again.stop()
