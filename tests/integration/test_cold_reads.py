"""A consumer of a backlog that lies on disk only: a worker reads it, and meanwhile all others are served."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.worker import HandWorker, ThreadWorker, Worker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.results import PutMessage, PutStatus
from tests.requests import pull_header, send_header

COUNT = 300
STORE = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=100, index_entries=1000)


def body(number: int) -> bytes:
    return b"%d " % number * 250


class World:
    """A broker with a backlog in queue 0 of T. Its reads of old parts wait for `reads.run_one()` if they are held."""

    def __init__(self, folder: Path, *, hold_reads: bool = True, held_max: int = 100) -> None:
        self.folder = folder
        self.files = FaultyFiles(PosixFiles())
        self.reads = HandWorker()

        def workers(name: str) -> Worker:
            return self.reads if hold_reads and name == "store-reads" else ThreadWorker(name)

        config = BrokerConfig(broker_name="b", listen_port=0, store_root=folder, held_pulls_max=held_max)
        self.broker = Broker(config, STORE, files=self.files, workers=workers)
        self.net = NetClient()

    async def start(self) -> None:
        await self.broker.start()
        self.broker.topics.put(TopicConfig("T"))

    async def close(self) -> None:
        await self.net.close()
        await self.broker.stop()

    def fill(self) -> None:
        for number in range(self.broker.store.max_offset("T", 0), COUNT):
            assert self.broker.store.put(PutMessage("T", 0, body(number))).status is PutStatus.OK

    def cool(self) -> None:
        """From now on nothing of the commit log counts as in memory."""
        self.files.plan.add(Fault("is_resident", "commitlog", error=None))

    async def pull(self, offset: int, *, flags: int = 0, commit: int = 0, wait_ms: int = 0) -> Command:
        header = pull_header(
            offset=offset,
            sys_flag=PULL_SUBSCRIPTION | flags,
            commit_offset=commit,
            suspend_timeout_millis=wait_ms,
        )
        return await self.net.invoke(self.broker.address, Command.request(Code.PULL_MESSAGE, header), 20_000)

    async def send(self) -> Command:
        header = send_header(queue_id=1)
        return await self.net.invoke(
            self.broker.address, Command.request(Code.SEND_MESSAGE_V2, header, b"quick"), 20_000
        )

    @property
    def turn_seconds(self) -> float:
        return self.broker.ground.turns.seconds

    async def held(self, pulls: int = 1) -> None:
        """Wait until so many pulls wait for the disk."""
        while self.broker.store.residency.waiting < pulls:  # noqa: ASYNC110 (bounded by the test's timeout)
            await asyncio.sleep(0.001)

    async def read_all(self) -> None:
        """Let the disk answer everybody; it rests in between, since something was sent."""
        while self.broker.store.residency.waiting:
            self.reads.run_all()
            await asyncio.sleep(0.001)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, held_max=3)
    await world.start()
    world.fill()
    yield world
    await world.close()


def numbers(answer: Command) -> list[int]:
    found = decode_records(answer.body_bytes)
    assert all(message.body == body(message.queue_offset) for message in found)
    return [message.queue_offset for message in found]


async def test_sends_and_other_pulls_go_on_while_a_pull_waits_for_the_disk(world: World) -> None:
    world.cool()
    long_turn = world.turn_seconds
    cold = asyncio.create_task(world.pull(0))
    await world.held()
    assert world.turn_seconds < long_turn
    world.files.plan.clear()
    for _ in range(20):
        assert (await world.send()).code == ResponseCode.SUCCESS
        assert numbers(await world.pull(COUNT - 8)) == list(range(COUNT - 8, COUNT))
    assert not cold.done()
    world.reads.run_one()
    answer = await cold
    assert answer.code == ResponseCode.SUCCESS
    assert numbers(answer) == list(range(32))
    assert (answer.fields or {})["nextBeginOffset"] == "32"


async def test_a_pull_is_answered_after_one_reading_even_if_the_memory_is_gone_again(world: World) -> None:
    world.cool()
    cold = asyncio.create_task(world.pull(0))
    await world.held()
    world.reads.run_one()
    assert numbers(await cold) == list(range(32))
    assert not world.reads.pending


async def test_the_offset_a_pull_brings_along_is_kept_before_the_disk_answers(world: World) -> None:
    world.cool()
    cold = asyncio.create_task(world.pull(40, flags=PULL_COMMIT_OFFSET, commit=40))
    await world.held()
    assert world.broker.offsets.query("g", "T", 0) == 40
    world.reads.run_one()
    assert numbers(await cold)[0] == 40


async def test_a_disk_that_cannot_read_is_an_answer(world: World) -> None:
    world.cool()
    world.files.plan.add(Fault("pread", "commitlog"))
    cold = asyncio.create_task(world.pull(0))
    await world.held()
    world.reads.run_one()
    answer = await cold
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "cannot be read" in (answer.remark or "")


async def test_only_so_many_pulls_may_wait(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.cool()
    waiting = [asyncio.create_task(world.pull(offset)) for offset in (0, 200)]
    await world.held(2)
    waiting.append(asyncio.create_task(world.pull(COUNT, flags=PULL_SUSPEND, wait_ms=10_000)))
    while not len(world.broker.reading.hold):  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert (await world.pull(64)).code == ResponseCode.SYSTEM_BUSY
    assert "[OVERLOAD]system busy" in caplog.text and "3 pulls wait (pullThreadPoolQueueCapacity)" in caplog.text
    await world.read_all()
    assert [numbers(await pull)[0] for pull in waiting[:2]] == [0, 200]
    world.files.plan.clear()
    assert (await world.pull(64)).code == ResponseCode.SUCCESS
    waiting[2].cancel()


async def test_who_has_gone_is_not_read_for(world: World) -> None:
    world.cool()
    cold = asyncio.create_task(world.pull(0))
    await world.held()
    await world.net.close()
    cold.cancel()
    while any(server.links for server in world.broker._servers):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    looked = len(world.files.plan.calls)
    world.reads.run_one()
    assert not [call for call, _path in world.files.plan.calls[looked:] if call in ("is_resident", "pread_now")]


async def test_a_broker_that_stops_answers_what_waits(world: World) -> None:
    world.cool()
    cold = asyncio.create_task(world.pull(0))
    await world.held()
    stopping = asyncio.create_task(world.broker.stop())
    await asyncio.sleep(0)
    world.reads.run_one()
    assert numbers(await cold) == list(range(32))
    await stopping


async def test_a_backlog_that_the_kernel_has_dropped_is_read_to_its_end(tmp_path: Path) -> None:
    first = World(tmp_path, hold_reads=False)
    await first.start()
    first.fill()
    await first.close()
    drop_from_memory(tmp_path / "commitlog")
    again = World(tmp_path, hold_reads=False)
    await again.start()  # its recovery reads the last files only
    found: list[int] = []
    while len(found) < COUNT:
        answer = await again.pull(len(found))
        assert answer.code == ResponseCode.SUCCESS
        found += numbers(answer)
        assert (await again.send()).code == ResponseCode.SUCCESS
    read = [path for call, path in again.files.plan.calls if call == "open" and path.parent.name == "commitlog"]
    await again.close()
    assert found == list(range(COUNT))
    files = sorted(path for path in (tmp_path / "commitlog").iterdir())
    assert read.count(files[0]) == 2  # by the store, and by the worker


def drop_from_memory(folder: Path) -> None:
    """Have the kernel forget what it keeps of these files."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        file = PosixFiles().open(path, read_only=True)
        file.view()
        if file.is_resident(file.size, 0):
            pytest.skip("this file system keeps its files in memory")
        file.close()
