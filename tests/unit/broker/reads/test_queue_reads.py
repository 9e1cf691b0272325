"""One read of a queue: its limits, its filter, and the offset reset that goes before both."""

from __future__ import annotations

from typing import Any

import pytest

from rocketlake.broker.reads.queue_reads import QueueReads
from rocketlake.store.results import GetResult, GetStatus, PutMessage
from tests.requests import pull_header
from tests.unit.broker.room_world import RoomWorld

FOUND = GetStatus.FOUND


async def read(world: RoomWorld, **fields: Any) -> GetResult:
    pull = pull_header(**fields)
    return QueueReads(world.store, world.offsets, world.clock).read(pull, world.admit(pull), wait=False)


def fill(world: RoomWorld) -> int:
    """Five messages, those with an even number have the tag A; returns the size of one."""
    for number in range(5):
        tag = b"A" if number % 2 == 0 else b"B"
        properties = b"TAGS\x01" + tag + b"\x02n\x01%d\x02" % number
        size = world.store.put(PutMessage("T", 0, b"%d" % number, properties)).size
    return size


@pytest.mark.parametrize(
    ("fields", "status", "next_offset", "count"),
    [
        ({}, FOUND, 5, 5),
        ({"offset": 3}, FOUND, 5, 2),
        ({"max_msg_nums": 2}, FOUND, 2, 2),
        ({"max_msg_nums": 0}, FOUND, 1, 1),
        ({"max_msg_nums": -3}, FOUND, 1, 1),
        ({"subscription": "A"}, FOUND, 5, 3),
        ({"subscription": "C"}, GetStatus.NO_MATCHED_MESSAGE, 5, 0),
        ({"subscription": "n > 2", "expression_type": "SQL92"}, FOUND, 5, 2),
        ({"offset": 5}, GetStatus.OFFSET_OVERFLOW_ONE, 5, 0),
        ({"offset": 6}, GetStatus.OFFSET_OVERFLOW_BADLY, 5, 0),
        ({"queue_id": 1, "offset": 0}, GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0),
    ],
)
async def test_what_is_asked_for_is_read(
    fields: dict[str, Any], status: GetStatus, next_offset: int, count: int
) -> None:
    async with RoomWorld(property_filter_enabled=True) as world:
        fill(world)
        found = await read(world, **fields)
        assert (found.status, found.next_offset, found.count) == (status, next_offset, count)


async def test_the_bytes_asked_for_end_a_read_but_one_message_is_read_in_any_case() -> None:
    async with RoomWorld() as world:
        size = fill(world)
        assert [(await read(world, max_msg_bytes=bytes_max)).count for bytes_max in (1, 2 * size, 100 * size)] == [
            1, 2, 5,
        ]  # fmt: skip


async def test_a_reset_goes_before_the_read_and_is_taken_once() -> None:
    async with RoomWorld() as world:
        fill(world)
        reads, pull = QueueReads(world.store, world.offsets, world.clock), pull_header(offset=4)
        world.offsets.assign_reset("g", "T", 0, 1)
        assert [reads.has_reset(pull), reads.has_reset(pull_header(queue_id=1))] == [True, False]
        moved = await read(world, offset=4)
        assert (moved.status, moved.next_offset, moved.count) == (GetStatus.OFFSET_RESET, 1, 0)
        assert (moved.min_offset, moved.max_offset) == reads.ends(pull) == (0, 5)
        assert not reads.has_reset(pull)
        assert (await read(world, offset=4)).status is FOUND
