"""Plain reads of a queue against the store's own: both find the same records; plain reads find only those in memory."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.java.java_compat import string_hash
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus
from tests.unit.store.store_world import World, message

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.store.plain_fetch import PlainFetch

_TAGS = ("red", "blue", "")
_HEAD = b"head"
Match = Callable[[int], bool]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.killed()


async def filled(world: World, **settings: Any) -> MessageStore:
    """Two queues whose records lie in each other's way, or in rows; one record is damaged, one entry is a filler."""
    store = await world.started(commit_log_file_bytes=64 * 1024, consume_queue_file_bytes=2000, **settings)
    chance = random.Random(7)
    queue_id = 0
    for number in range(300):
        if number < 150 or number % 9 == 0:
            queue_id = chance.randrange(2)
        tag = _TAGS[number % 3]
        properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
        store.put(message(bytes(chance.randrange(900)), queue_id=queue_id, properties=properties))
    offset = store.queue_entries("T", 0, 20, 1)[0][0]
    mapped = store.log.list.find(offset)
    assert mapped is not None
    mapped.file.pwrite(b"damaged", offset - mapped.start)
    return store


def compare(
    store: MessageStore,
    plain: PlainFetch,
    queue_id: int,
    asked: tuple[int, int, int],
    match: Match | None,
    *,
    end_turn: bool = True,
) -> bool:
    """Read in both ways; False where the plain way found nothing."""
    offset, messages_max, bytes_max = asked
    queue = store.queues.find("T", queue_id)
    assert queue is not None
    plain.begin()
    is_found = plain.fetch(queue, offset, messages_max, bytes_max, match)
    framed = plain.framed(_HEAD)
    if end_turn:
        plain.end()
    if not is_found:
        return False
    result = store.get("T", queue_id, offset, messages_max, bytes_max, match, wait=False)
    assert result.status is GetStatus.FOUND
    assert (plain.next_offset, plain.min_offset, plain.max_offset, plain.count, plain.size) == (
        result.next_offset, result.min_offset, result.max_offset, result.count, result.bytes
    )  # fmt: skip
    assert b"".join(framed) == _HEAD + b"".join(result.slices)
    return True


@pytest.mark.parametrize("settings", [{}, {"transfer_count_max_memory": 7}, {"transfer_bytes_max_memory": 2000}])
async def test_any_read_finds_the_same(world: World, settings: dict[str, int]) -> None:
    store = await filled(world, **settings)
    plain = PlainFetch(store.fetch)
    chance = random.Random(11)
    wanted = frozenset((string_hash("red"),))
    found = 0
    for number in range(2000):
        if number % 50 == 0:
            store.put(message(b"more", queue_id=number % 2))
        asked = (
            chance.randrange(170),
            chance.choice([1, 2, 31, 32, 33, 4096]),
            chance.choice([0, 1500, 1 << 20, 1 << 40]),
        )
        found += compare(
            store, plain, number % 2, asked, chance.choice([None, wanted.__contains__]), end_turn=number % 3 == 0
        )
    assert found > 1000


async def test_a_queue_read_in_a_row_to_its_end(world: World) -> None:
    store = await filled(world)
    plain = PlainFetch(store.fetch)
    offset = 0
    plain_reads = 0
    while offset < store.max_offset("T", 1):
        plain_reads += compare(store, plain, 1, (offset, 5, 1 << 20), None)
        offset = store.get("T", 1, offset, 5, 1 << 20).next_offset  # a read over two files of the log is not plain
    for outside in (-1, offset, offset + 1):
        assert not compare(store, plain, 1, (outside, 5, 1 << 20), None)
    assert plain_reads > 15


async def test_entries_on_disk_are_left_to_the_whole_fetch(world: World) -> None:
    store = await filled(world)
    plain = PlainFetch(store.fetch)
    queue = store.queues.find("T", 0)
    assert queue is not None
    queue.write_tail()
    plain.begin()
    world.files.plan.add(Fault("pread_now", "consumequeue", times=1, error=None))
    assert not plain.fetch(queue, 0, 16, 1 << 20, None)
    assert plain.fetch(queue, 0, 16, 1 << 20, None)


async def test_records_on_disk_are_left_to_the_whole_fetch(world: World) -> None:
    store = await filled(world)
    plain = PlainFetch(store.fetch)
    queue = store.queues.find("T", 0)
    assert queue is not None
    world.files.plan.add(Fault("is_resident", "commitlog", times=1, error=None))
    assert not plain.fetch(queue, 0, 16, 1 << 20, None)
    assert compare(store, plain, 0, (0, 16, 1 << 20), None)
