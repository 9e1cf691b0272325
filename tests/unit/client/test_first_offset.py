"""Where a queue is read from when it becomes ours."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.client.config import FirstOffset
from rocketlake.client.consumer.first_offset import StartPolicy
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.model.message_queue import MessageQueue

TOPIC, RETRY = MessageQueue("T", "b", 0), MessageQueue("%RETRY%g", "b", 0)


async def end_of(queue: MessageQueue) -> int:
    return 100


async def by_time(queue: MessageQueue, timestamp_ms: int) -> int:
    return timestamp_ms


async def save(queue: MessageQueue, offset: int) -> None:
    raise AssertionError("nothing is saved here")


def offsets(committed: int) -> RemoteOffsets:
    async def query(queue: MessageQueue) -> int:
        return committed

    return RemoteOffsets(query, save)


@pytest.mark.parametrize(
    ("where", "queue", "expected"),
    [
        (FirstOffset.LAST, TOPIC, 100),
        (FirstOffset.LAST, RETRY, 0),
        (FirstOffset.FIRST, TOPIC, 0),
        (FirstOffset.FIRST, RETRY, 0),
        (FirstOffset.TIMESTAMP, TOPIC, 77),
        (FirstOffset.TIMESTAMP, RETRY, 100),
    ],
)
async def test_without_a_committed_offset_the_policy_decides(
    where: FirstOffset, queue: MessageQueue, expected: int
) -> None:
    assert await StartPolicy(where, 77, end_of, by_time).first_offset(offsets(-1), queue) == expected


@pytest.mark.parametrize("where", FirstOffset)
@pytest.mark.parametrize("committed", [0, 42])
async def test_a_committed_offset_always_wins(where: FirstOffset, committed: int) -> None:
    assert await StartPolicy(where, 77, end_of, by_time).first_offset(offsets(committed), TOPIC) == committed


async def test_an_unreadable_offset_is_an_error_not_a_fresh_start() -> None:
    async def query(queue: MessageQueue) -> int:
        raise LinkError("down")

    with pytest.raises(LinkError):
        await StartPolicy(FirstOffset.LAST, 77, end_of, by_time).first_offset(RemoteOffsets(query, save), TOPIC)
