"""When a send is answered: with the disk and its workers moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import send_header


class Bench:
    """A broker with SYNC_FLUSH; `flush`, `saver` and `reads` are run by the test."""

    def __init__(self, files: MemoryFiles | None = None, broker_id: int = 0) -> None:
        self.clock = ManualClock()
        self.plan = FaultPlan()
        self.disk = files or MemoryFiles()
        self.files = FaultyFiles(self.disk, self.plan)
        self.flush = HandWorker("flush")
        self.saver = HandWorker("saver")
        self.reads = HandWorker("reads")
        net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=net.host("10.0.0.1"))
        self.broker = Broker(
            BrokerConfig(
                broker_name="b",
                broker_id=broker_id,
                listen_host="10.0.0.2",
                listen_port=10911,
                fast_listen_port=0,
                store_root=Path("/s"),
                waiting_sends_max=3,
            ),
            StoreConfig(
                commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_disk_type="SYNC_FLUSH"
            ),
            files=self.files,
            clock=self.clock,
            network=net.host("10.0.0.2"),
            workers=self._worker,
        )

    def _worker(self, name: str) -> Worker:
        by_hand = {"store-flush": self.flush, "table-saver": self.saver, "store-reads": self.reads}
        return by_hand.get(name) or InlineWorker(name)

    async def send(self, properties: str = "", topic: str = "T") -> asyncio.Task[Command]:
        header = send_header(topic=topic, properties=properties)
        command = Command.request(RequestCode.SEND_MESSAGE_V2, header, b"body")
        task = asyncio.create_task(self.client.invoke("10.0.0.2:10911", command, 1e9))
        await self.clock.settle()
        return task

    async def run_flush(self) -> None:
        self.flush.run_all()
        await self.clock.settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.broker.start()
    bench.broker.topics.put(TopicConfig("T"))
    yield bench
    await bench.client.close()
    await bench.broker.stop()


async def test_a_send_is_answered_after_its_sync_not_before(bench: Bench) -> None:
    sent = await bench.send()
    assert not sent.done()
    await bench.run_flush()
    assert (await sent).code == ResponseCode.SUCCESS


async def test_one_sync_answers_all_who_wait(bench: Bench) -> None:
    sends = [await bench.send() for _ in range(3)]
    await bench.run_flush()
    await bench.run_flush()
    assert [(await sent).code for sent in sends] == [ResponseCode.SUCCESS] * 3


async def test_who_does_not_want_to_wait_is_answered_at_once(bench: Bench) -> None:
    sent = await bench.send("WAIT\x01false\x02")
    assert (await sent).code == ResponseCode.SUCCESS


async def test_a_late_disk_is_told_with_the_place_of_the_message(bench: Bench) -> None:
    sent = await bench.send()
    await bench.clock.run_for(5100)
    answer = await sent
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert (answer.fields or {})["queueOffset"] == "0"


async def test_only_so_many_sends_wait_for_the_disk(bench: Bench) -> None:
    waiting = [await bench.send() for _ in range(3)]
    refused = await (await bench.send())
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert (refused.remark or "").startswith("[OVERLOAD]")
    await bench.run_flush()
    assert [(await sent).code for sent in waiting] == [ResponseCode.SUCCESS] * 3
    assert bench.broker.ground.intake.waiting == 0


async def test_a_message_of_a_new_topic_waits_until_the_topic_is_saved(bench: Bench) -> None:
    sent = await bench.send("WAIT\x01false\x02", topic="new")
    assert not sent.done()
    assert bench.broker.store.max_offset("new", 0) == 0
    bench.saver.run_all()
    await bench.clock.settle()
    assert (await sent).code == ResponseCode.SUCCESS
    assert b'"new"' in bench.files.read_bytes(Path("/s/config/topics.json"))


async def test_a_failed_sync_is_never_acknowledged_and_ends_taking_messages(bench: Bench) -> None:
    good = await bench.send()
    await bench.run_flush()
    assert (await good).code == ResponseCode.SUCCESS
    bench.plan.add(Fault("sync", "commitlog"))
    lost = await bench.send()
    await bench.run_flush()
    assert (await lost).code == ResponseCode.SERVICE_NOT_AVAILABLE
    later = await (await bench.send())
    assert later.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert later.remark
    bench.plan.clear()
    still = await (await bench.send())
    assert still.code == ResponseCode.SERVICE_NOT_AVAILABLE
