"""Op messages, the walk over them and the progress, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.files import Fault, FaultPlan, FaultyFiles, MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.transaction.op_walk import OpWalk
from rocketlake.broker.transaction.ops import TransactionOps, half_offsets
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_records
from rocketlake.model.message import StoredMessage
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
        self.ops = TransactionOps(self.store, self.config, self.clock, lambda: HOST)
        self.offsets = OffsetTable(Path("/s/o.json"), files, self.clock)
        self.progress = TransactionProgress(self.store, self.offsets)

    def put(self, topic: str, body: bytes = b"m", **properties: str) -> None:
        message = PutMessage(topic, 0, body, property_text.encode(properties))
        assert self.store.put(message).status is PutStatus.OK

    def op(self, body: bytes, tag: str = "d") -> None:
        self.put(OPS, body, TAGS=tag)

    def written(self) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(OPS, 0, 0, 32, 1 << 20).slices))

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.written()]

    def end(self, *half_offsets: int) -> None:
        for half_offset in half_offsets:
            assert self.ops.claim(half_offset)
            self.ops.add(half_offset)

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


async def test_a_half_message_is_ended_once(world: World) -> None:
    assert world.ops.claim(4)
    assert not world.ops.claim(4)
    assert world.ops.is_ended(4)
    world.ops.release(4)
    assert not world.ops.is_ended(4)
    assert world.ops.claim(4)


@pytest.mark.parametrize(("body", "offsets"), [(b"12,15,", [12, 15]), (b"7", [7]), (b"", []), (b"x,-1,3,", [3])])
def test_bodies_of_old_and_new_brokers(body: bytes, offsets: list[int]) -> None:
    assert list(half_offsets(body)) == offsets


async def test_an_op_message_is_done_with_when_all_it_names_is_passed(world: World) -> None:
    world.op(b"0,2,")
    world.op(b"1,")
    walk = OpWalk(world.store, 0)
    assert walk.read_on(0)
    assert not walk.read_on(0)
    assert (walk.take(0), walk.take(1), walk.safe_offset) == (True, True, 0)
    assert (walk.take(2), walk.take(3), walk.safe_offset) == (True, False, 2)


async def test_ends_of_what_is_passed_or_named_before_keep_no_op_message(world: World) -> None:
    world.op(b"4,9,")
    world.op(b"9,")
    world.op(b"11,", tag="other")
    walk = OpWalk(world.store, 0)
    walk.read_on(5)
    assert walk.late == {4}
    assert (walk.safe_offset, walk.take(11), walk.take(9), walk.safe_offset) == (0, False, True, 3)


async def test_progress_is_saved_only_when_the_log_is_on_disk(world: World) -> None:
    world.put(HALVES)
    world.put(HALVES)
    world.progress.move(1, 0)
    assert (world.saved, world.progress.position()) == ((-1, -1), (1, 0))
    await world.clock.run_for(1000)
    assert world.progress.settle()
    assert world.saved == (1, 0)


async def test_progress_outside_the_queues_goes_back_into_them(world: World) -> None:
    world.put(HALVES)
    world.offsets.commit("CID_RMQ_SYS_TRANS", HALVES, 0, 99)
    assert world.progress.position() == (1, 0)
