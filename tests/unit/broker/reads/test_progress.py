"""What a pull leaves behind: how far its group has fetched, the offset that it brings along, figures."""

from __future__ import annotations

import pytest

from rocketlake.broker.reads.progress import ReadProgress
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from rocketlake.store.results import GetResult, GetStatus, PutMessage
from tests.requests import pull_header
from tests.unit.broker.room_world import RoomWorld


def progress_of(world: RoomWorld) -> ReadProgress:
    for _ in range(5):
        world.store.put(PutMessage("T", 0, b"x"))
    return ReadProgress(world.store, world.offsets, world.stats, world.clock)


@pytest.mark.parametrize(
    ("commits", "brought", "kept"),
    [(True, 3, 3), (True, 0, 0), (True, 5, 5), (True, 6, -1), (True, -1, -1), (False, 3, -1)],
)
async def test_an_offset_is_kept_if_it_is_brought_on_purpose_and_the_queue_reaches_it(
    commits: bool, brought: int, kept: int
) -> None:
    async with RoomWorld() as world:
        flags = PULL_SUBSCRIPTION | (PULL_COMMIT_OFFSET if commits else 0)
        progress_of(world).keep_brought(pull_header(sys_flag=flags, commit_offset=brought))
        assert world.offsets.query("g", "T", 0) == kept


async def test_a_read_is_noted_and_counted_only_if_it_found_messages() -> None:
    async with RoomWorld() as world:
        progress, pull = progress_of(world), pull_header()
        progress.note_read(pull, GetResult(GetStatus.NO_MATCHED_MESSAGE, next_offset=2))
        assert (world.offsets.query_pull("g", "T", 0), world.stats.got_messages) == (2, 0)
        progress.note_read(pull, GetResult(GetStatus.FOUND, next_offset=4, bytes=99, count=2))
        assert (world.offsets.query_pull("g", "T", 0), world.stats.got_messages) == (4, 2)
        assert world.offsets.query("g", "T", 0) == -1, "what was fetched is not consumed yet"


async def test_a_pull_that_waits_at_the_end_has_fetched_all_and_its_offset_counts_now() -> None:
    async with RoomWorld() as world:
        flags = PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET
        progress_of(world).note_at_end(pull_header(offset=5, sys_flag=flags, commit_offset=4))
        assert (world.offsets.query_pull("g", "T", 0), world.offsets.query("g", "T", 0)) == (5, 4)
