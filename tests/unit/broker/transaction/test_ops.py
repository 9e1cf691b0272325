"""Op messages and the progress, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps, half_offsets
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

HOST = encode_host("10.0.0.1", 10911)
OPS, HALVES = "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.plan = FaultPlan()
        files = FaultyFiles(MemoryFiles(), self.plan)
        config = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, flush_least_pages=0)
        self.store = MessageStore(Path("/s"), config, files=files, clock=self.clock, workers=InlineWorker)
        self.config = LiveConfig(BrokerConfig(transaction_op_bytes_max=10))
        self.ops = TransactionOps(self.store, HalfLedger(), self.config, self.clock, lambda: HOST)
        self.offsets = OffsetTable(Path("/s/o.json"), files, self.clock)
        self.progress = TransactionProgress(self.store, self.offsets)

    def put(self, topic: str, body: bytes = b"m", **properties: str) -> None:
        message = PutMessage(topic, 0, body, property_text.encode(properties))
        assert self.store.put(message).status is PutStatus.OK

    def written(self) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(OPS, 0, 0, 32, 1 << 20).slices))

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.written()]

    def end(self, *half_offsets: int) -> None:
        for half_offset in half_offsets:
            self.ops.end(StoredMessage(HALVES, b"", queue_offset=half_offset), Standing.COMMITTED)

    @property
    def saved(self) -> tuple[int, int]:
        return tuple(self.offsets.query("CID_RMQ_SYS_TRANS", topic, 0) for topic in (HALVES, OPS))  # type: ignore[return-value]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.start()
    await world.ops.start()
    yield world
    await world.ops.stop()
    await world.store.stop()


async def test_ends_are_written_though_the_limit_of_bodies_is_smaller_than_their_op_message(world: World) -> None:
    world.store.config = replace(world.store.config, body_bytes_max=4)
    world.end(3, 12)
    await world.clock.run_for(3000)
    assert world.bodies() == [b"3,12,"]


async def test_ends_are_written_together_after_the_interval(world: World) -> None:
    world.end(3, 12)
    await world.clock.run_for(2999)
    assert world.bodies() == []
    await world.clock.run_for(1)
    (message,) = world.written()
    assert (message.body, message.tags, message.properties["WAIT"]) == (b"3,12,", "d", "true")
    assert (message.born_host, message.store_host) == (("10.0.0.1", 10911), ("10.0.0.1", 10911))
    await world.clock.run_for(60_000)
    assert len(world.written()) == 1


async def test_ends_are_written_at_once_when_there_are_many_bytes(world: World) -> None:
    world.end(100, 101)
    assert world.bodies() == []
    world.end(102)
    assert world.bodies() == [b"100,101,102,"]


async def test_an_op_message_is_full_when_the_limit_is_reached(world: World) -> None:
    world.config.update({"transactionOpMsgMaxSize": "1000"})
    world.end(*range(100, 105))
    world.config.update({"transactionOpMsgMaxSize": "10"})
    world.ops.write()
    assert world.bodies() == [b"100,101,102,", b"103,104,"]


async def test_ends_the_store_does_not_take_are_written_later(world: World) -> None:
    world.plan.add(Fault("pwrite", "commitlog", times=1))
    world.end(1)
    await world.clock.run_for(3000)
    assert world.bodies() == []
    world.end(2)
    await world.clock.run_for(60_000)
    assert world.bodies() == [b"1,2,"]


async def test_what_waits_is_written_at_the_stop(world: World) -> None:
    world.end(5)
    await world.ops.stop()
    assert world.bodies() == [b"5,"]


async def test_an_op_message_that_names_the_last_end_says_so(world: World) -> None:
    world.config.update({"transactionOpMsgMaxSize": "1000"})
    world.end(*range(100, 105))
    world.config.update({"transactionOpMsgMaxSize": "10"})
    world.ops.write()
    assert ["__RL_ENDS" in message.properties for message in world.written()] == [False, True]


@pytest.mark.parametrize(("body", "offsets"), [(b"12,15,", [12, 15]), (b"7", [7]), (b"", []), (b"x,-1,3,", [3])])
def test_bodies_of_old_and_new_brokers(body: bytes, offsets: list[int]) -> None:
    assert list(half_offsets(body)) == offsets


async def test_progress_is_saved_only_when_the_log_is_on_disk(world: World) -> None:
    world.put(HALVES)
    world.put(HALVES)
    world.progress.move(1, 0)
    assert world.saved == (-1, -1)
    await world.clock.run_for(1000)
    world.progress.settle()
    assert world.saved == (1, 0)


async def test_progress_outside_the_queues_goes_back_into_them(world: World) -> None:
    world.put(HALVES)
    world.offsets.commit("CID_RMQ_SYS_TRANS", HALVES, 0, 99)
    assert world.progress.saved() == (1, 0)


async def test_ends_of_a_run_are_noted_once_and_written_when_they_fill_an_op_message(world: World) -> None:
    ends = [(QueueOffset(offset), Standing.COMMITTED) for offset in (7, 8, 9)]
    world.ops.end_alone(ends)
    assert (world.ops.room_bytes, world.bodies()) == (10 - len("7,8,9,"), [])
    world.ops.end_alone(ends)
    assert world.ops.room_bytes == 10 - len("7,8,9,")
    world.ops.end_alone([(QueueOffset(10), Standing.ROLLED_BACK), (QueueOffset(11), Standing.COMMITTED)])
    assert (world.ops.room_bytes, world.bodies()) == (10, [b"7,8,9,10,11,"])
