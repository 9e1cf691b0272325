"""A disk on which every sync hangs, under a broker with SYNC_FLUSH: only the answers that need the disk wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import File
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies import heartbeat
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.offset import QueryOffsetHeader, UpdateOffsetHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import pull_header, send_header

NO_WAIT = "WAIT\x01false\x02"


class _File:
    """A file of StallingFiles."""

    def __init__(self, file: File, disk: StallingFiles) -> None:
        self._file = file
        self._disk = disk

    def sync(self) -> None:
        self._disk.wait(self._file.path)
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class StallingFiles(PosixFiles):
    """The real disk, but syncs hang from `stall` to `go_on`."""

    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()
        self._works = threading.Event()
        self._works.set()
        self._hangs = threading.Condition()
        self._hanging: set[str] = set()
        self.on_the_loop: list[Path] = []
        """What the loop itself wanted to have synced: it would hang, and everybody with it."""

    def stall(self) -> None:
        self._works.clear()

    def go_on(self) -> None:
        self._works.set()

    def wait(self, path: Path) -> None:
        if self._works.is_set():
            return
        if threading.get_ident() == self._loop_thread:
            self.on_the_loop.append(path)
            return
        with self._hangs:
            self._hanging.update(path.parts)
            self._hangs.notify_all()
        self._works.wait()

    async def hangs(self, folder: str) -> None:
        """Wait until the sync of a file in this folder, or of this name, hangs."""

        def look() -> None:
            with self._hangs:
                if not self._hangs.wait_for(lambda: folder in self._hanging, 30):
                    raise TimeoutError(f"nobody syncs {folder}")

        await asyncio.to_thread(look)

    def open(self, path: Path, **options: Any) -> File:
        return _File(super().open(path, **options), self)

    def write_bytes(self, path: Path, data: bytes | bytearray | memoryview) -> None:
        self.wait(path)
        super().write_bytes(path, data)

    def sync_dir(self, path: Path) -> None:
        self.wait(path)
        super().sync_dir(path)


class World:
    """A broker on such a disk, and one client of it."""

    def __init__(self, folder: Path) -> None:
        self.disk = StallingFiles()
        store = StoreConfig(
            flush_disk_type="SYNC_FLUSH",
            commit_log_file_bytes=1 << 20,
            index_slots=100,
            index_entries=1000,
            queue_flush_interval_ms=10,
            queue_flush_thorough_interval_ms=10,
        )
        config = BrokerConfig(broker_name="b", listen_port=0, store_root=folder, offset_save_interval_ms=10)
        self.broker = Broker(config, store, files=self.disk)
        self._net = NetClient()

    async def ask(self, code: int, header: Any = None, body: bytes = b"") -> Command:
        return await self._net.invoke(self.broker.address, Command.request(code, header, body), 60_000)

    async def send(self, body: bytes, properties: str = "") -> Command:
        header = send_header(properties=properties)
        return await self.ask(Code.SEND_MESSAGE_V2, header, body)

    async def pull(self) -> Command:
        header = pull_header()
        return await self.ask(Code.PULL_MESSAGE, header)

    async def beat(self) -> Command:
        body = heartbeat.Heartbeat(client_id="c", producers=[heartbeat.ProducerEntry(group_name="p")])
        return await self.ask(Code.HEART_BEAT, body=body.encode())

    async def commit(self, offset: int) -> Command:
        header = UpdateOffsetHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=offset)
        return await self.ask(Code.UPDATE_CONSUMER_OFFSET, header)

    async def committed(self) -> Command:
        return await self.ask(Code.QUERY_CONSUMER_OFFSET, QueryOffsetHeader(consumer_group="g", topic="T", queue_id=0))

    async def close(self) -> None:
        self.disk.go_on()
        await self._net.close()
        await self.broker.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.broker.start()
    world.broker.topics.put(TopicConfig("T"))
    yield world
    await world.close()


async def test_reads_heartbeats_offsets_and_sends_that_do_not_wait_go_on(world: World) -> None:
    assert (await world.send(b"before", "KEYS\x01k\x02")).code == ResponseCode.SUCCESS
    world.disk.stall()
    waiting = asyncio.create_task(world.send(b"waits"))
    await world.disk.hangs("commitlog")
    for round_number in range(1, 20):
        assert (await world.send(b"does not wait", NO_WAIT)).code == ResponseCode.SUCCESS
        assert (await world.pull()).code == ResponseCode.SUCCESS
        assert (await world.beat()).code == ResponseCode.SUCCESS
        assert (await world.commit(round_number)).code == ResponseCode.SUCCESS
        assert ((await world.committed()).fields or {})["offset"] == str(round_number)
    # The workers of the derived files and of the tables hang, too, and nobody notices.
    await world.disk.hangs("config")
    assert (await world.pull()).code == ResponseCode.SUCCESS
    assert not waiting.done()
    assert world.disk.on_the_loop == []
    world.disk.go_on()
    assert (await waiting).code == ResponseCode.SUCCESS


async def test_what_was_sent_while_the_disk_hung_is_read_when_it_is_safe(world: World) -> None:
    world.disk.stall()
    waiting = [asyncio.create_task(world.send(b"%d" % number)) for number in range(3)]
    await world.disk.hangs("commitlog")
    assert (await world.pull()).code == ResponseCode.PULL_NOT_FOUND
    world.disk.go_on()
    assert [(await send).code for send in waiting] == [ResponseCode.SUCCESS] * 3
    assert (await world.pull()).code == ResponseCode.SUCCESS
