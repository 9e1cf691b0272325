"""Offsets at brokers and in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.client.consumer.offset_store import LocalOffsets, RemoteOffsets
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.response_code import ResponseCode

Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
PATH = Path("/offsets/client/group/offsets.json")


class Brokers:
    """Committed offsets as the brokers have them; `down` queues cannot be reached."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.down: set[MessageQueue] = set()

    async def query(self, queue: MessageQueue) -> int:
        return self.offsets.get(queue, -1)

    async def save(self, queue: MessageQueue, offset: int) -> None:
        if queue in self.down:
            raise LinkError("down")
        self.offsets[queue] = offset


async def test_memory_wins_over_the_broker_until_it_is_forgotten() -> None:
    brokers = Brokers()
    brokers.offsets[Q0] = 5
    store = RemoteOffsets(brokers.query, brokers.save)
    assert await store.read(Q0) == 5
    store.update(Q0, 9, increase_only=True)
    assert await store.read(Q0) == 9
    store.forget(Q0)
    assert await store.read(Q0) == 5


@pytest.mark.parametrize(("increase_only", "expected"), [(True, 9), (False, 3)])
async def test_an_offset_goes_back_only_when_set(increase_only: bool, expected: int) -> None:
    store = RemoteOffsets(Brokers().query, Brokers().save)
    store.update(Q0, 9, increase_only=True)
    store.update(Q0, 3, increase_only=increase_only)
    assert store.memory(Q0) == expected


async def test_one_unreachable_broker_does_not_keep_the_others_from_saving() -> None:
    brokers = Brokers()
    brokers.down.add(Q0)
    store = RemoteOffsets(brokers.query, brokers.save)
    store.update(Q0, 1, increase_only=True)
    store.update(Q1, 2, increase_only=True)
    await store.persist([Q0, Q1])
    assert brokers.offsets == {Q1: 2}
    brokers.down.clear()
    await store.persist([Q0, Q1])
    assert brokers.offsets == {Q0: 1, Q1: 2}


async def test_offsets_of_a_deleted_topic_are_one_line_until_they_are_saved_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    there, other = {"S"}, MessageQueue("S", "b", 0)

    async def save(queue: MessageQueue, offset: int) -> None:
        if queue.topic not in there:
            raise RemoteError("refused", code=ResponseCode.TOPIC_NOT_EXIST)

    store = RemoteOffsets(Brokers().query, save)
    for queue in (Q0, Q1, other):
        store.update(queue, 1, increase_only=True)
    lines = []
    for is_made_anew in (False, False, False, True, False, False):
        there = {"S", "T"} if is_made_anew else {"S"}
        await store.persist([Q0, Q1, other])
        lines.append(caplog.text.count("was not saved"))
    assert lines == [1, 1, 1, 1, 2, 2]


async def test_a_broker_that_does_not_answer_is_waited_for_twice_and_no_other_waits_for_it() -> None:
    """A stop took five seconds for each of its queues."""
    other, saved, asked = MessageQueue("T", "c", 0), asyncio.Event(), 0

    async def save(queue: MessageQueue, offset: int) -> None:
        nonlocal asked
        if queue == other:
            saved.set()
        else:
            asked += 1
            await saved.wait()
            raise LinkError("does not answer")

    queues = [*(MessageQueue("T", "b", number) for number in range(100)), other]
    store = RemoteOffsets(Brokers().query, save)
    for queue in queues:
        store.update(queue, 1, increase_only=True)
    await asyncio.wait_for(store.persist(queues), 10)
    assert asked == 2


async def test_only_queues_of_ours_are_saved() -> None:
    brokers = Brokers()
    store = RemoteOffsets(brokers.query, brokers.save)
    store.update(Q0, 1, increase_only=True)
    store.update(Q1, 2, increase_only=True)
    await store.persist([Q1])
    assert brokers.offsets == {Q1: 2}
    store.forget(Q0)
    assert store.memory(Q0) == -1


async def test_local_offsets_survive_a_restart_and_keep_those_of_other_queues() -> None:
    files = MemoryFiles()
    first = LocalOffsets(files, PATH)
    await first.load()
    assert await first.read(Q0) == -1
    first.update(Q0, 4, increase_only=True)
    await first.persist([Q0])
    first.update(Q1, 7, increase_only=True)
    await first.persist([Q1])

    second = LocalOffsets(files, PATH)
    await second.load()
    assert (await second.read(Q0), await second.read(Q1)) == (4, 7)


async def test_a_broken_local_file_is_replaced_by_its_backup() -> None:
    files = MemoryFiles()
    store = LocalOffsets(files, PATH)
    await store.load()
    for offset in (4, 5):
        store.update(Q0, offset, increase_only=True)
        await store.persist([Q0])
    files.write_bytes(PATH, b'{"offsetTable":{{"bro')
    again = LocalOffsets(files, PATH)
    await again.load()
    assert await again.read(Q0) == 4


async def test_a_local_file_of_a_java_client_is_read() -> None:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    text = b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"T"\n\t\t}:12\n\t}\n}'
    files.write_bytes(PATH, text)
    store = LocalOffsets(files, PATH)
    await store.load()
    assert await store.read(Q1) == 12


async def test_two_that_save_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "group" / "offsets.json"
    store = LocalOffsets(PosixFiles(), path)
    for round_number in range(30):
        store.update(Q0, round_number, increase_only=True)
        first = asyncio.create_task(store.persist([Q0]))
        store.update(Q1, round_number, increase_only=True)
        await asyncio.gather(first, store.persist([Q1]), store.persist([Q0, Q1]))
    fresh = LocalOffsets(PosixFiles(), path)
    await fresh.load()
    assert (await fresh.read(Q0), await fresh.read(Q1)) == (29, 29)


async def test_offsets_that_could_not_be_written_are_written_the_next_time(tmp_path: Path) -> None:
    (tmp_path / "group").write_text("a file where the folder should be")
    store = LocalOffsets(PosixFiles(), tmp_path / "group" / "offsets.json")
    store.update(Q0, 7, increase_only=True)
    await store.persist([Q0])
    (tmp_path / "group").unlink()
    await store.persist([Q0])
    fresh = LocalOffsets(PosixFiles(), tmp_path / "group" / "offsets.json")
    await fresh.load()
    assert await fresh.read(Q0) == 7
