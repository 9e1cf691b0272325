"""Walks through the half topic when something is in the way, on a store in memory; dialogues: tests/scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction.check import TransactionCheck
from rocketlake.broker.transaction.check_back import CheckBack
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

MARKED = {"TRAN_MSG": "true", "big": ""}
HALF, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"


class ProducerLink:
    """A producer that writes down what it is asked."""

    address = "10.0.0.9:5"
    remote = "10.0.0.9", 5
    user = None

    def __init__(self, *, writable: bool = True) -> None:
        self.writable = writable
        self.asked: list[Command] = []

    def send(self, command: Command) -> None:
        self.asked.append(command)

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        raise NotImplementedError

    def close(self) -> None: ...


class World:
    def __init__(self, reads: Worker | None = None, makes: Worker | None = None, **store: Any) -> None:
        clock = self.clock = ManualClock()
        self.plan = FaultPlan()
        files = FaultyFiles(MemoryFiles(), self.plan)

        def workers(name: str) -> Worker:
            return {"store-reads": reads, "store-files": makes}.get(name) or InlineWorker(name)

        config = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100, **store)
        self.store = MessageStore(Path("/s"), config, files=files, clock=clock, workers=workers)
        self.live = LiveConfig(BrokerConfig(broker_name="b"))
        self.topics = TopicTable(Path("/s/t.json"), files, clock)
        self.topics.put(TopicConfig("T"))
        self.ledger = HalfLedger()
        self.ledger.is_known = True
        self.ops = TransactionOps(self.store, self.ledger, self.live, clock, lambda: encode_host("10.0.0.1", 1))
        self.progress = TransactionProgress(self.store, OffsetTable(Path("/s/o.json"), files, clock))
        self.producers = ProducerTable(clock)
        self.link = ProducerLink()
        self.producers.register("g", self.link, "c")
        check_back = CheckBack(self.producers, Push(Turns(clock, 1.5), clock), lambda: "b", clock)
        self.check = TransactionCheck(
            config=self.live,
            store=self.store,
            topics=self.topics,
            ledger=self.ledger,
            ops=self.ops,
            progress=self.progress,
            check_back=check_back,
            clock=clock,
        )

    def put(self, body: bytes = b"m", **properties: str) -> None:
        known = {"REAL_TOPIC": "T", "REAL_QID": "3", "PGROUP": "g", "UNIQ_KEY": "u", "TRAN_MSG": "true"}
        text = property_text.encode(known | properties)
        message = PutMessage(HALF, 0, body, text, flag=7, born_ms=self.clock.now_ms())
        assert self.store.put(message).status is PutStatus.OK

    def lying(self, topic: str = HALF) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(topic, 0, 0, 32, 1 << 20).slices))

    async def walk(self, later_ms: int = 7000) -> int:
        """A walk some time later; the half offset it came to."""
        self.clock.advance(later_ms)
        await self.check.walk()
        return self.ledger.position


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.start()
    yield world
    await world.store.stop()


async def test_a_half_message_that_lies_on_disk_only_is_asked_about_once_a_worker_has_read_it() -> None:
    reads = HandWorker()
    world = World(reads)
    await world.store.start()
    world.put(b"old")
    world.put(b"older", UNIQ_KEY="v")
    world.store.queues.flush()
    for call in ("is_resident", "pread_now"):
        world.plan.add(Fault(call, times=1, error=None))
    walk = asyncio.create_task(world.walk())
    await world.clock.settle()
    asked = []
    while reads.pending:
        asked.append(len(world.link.asked))
        reads.run_one()
        await world.clock.settle()
    assert asked == [0, 0], "entries, then records"
    await walk
    assert [command.header(CheckTransactionHeader).msg_id for command in world.link.asked] == ["u", "v"]
    await world.store.stop()


async def test_an_end_that_comes_while_the_walk_waits_for_the_disk_stays_as_it_was_told() -> None:
    reads = HandWorker()
    world = World(reads)
    await world.store.start()
    world.put()
    (half,) = world.lying()
    world.store.queues.flush()
    world.plan.add(Fault("is_resident", times=1, error=None))
    walk = asyncio.create_task(world.walk())
    await world.clock.settle()
    assert reads.pending
    world.ops.end(half, Standing.COMMITTED)
    while reads.pending:
        reads.run_one()
        await world.clock.settle()
    await walk
    assert world.ledger.standing(half) is Standing.COMMITTED, "the end that is sent again is answered with success"
    assert (world.link.asked, len(world.lying())) == ([], 1)
    await world.store.stop()


async def test_a_half_message_that_the_disk_does_not_give_holds_up_no_other(world: World) -> None:
    world.put(b"bad")
    for _ in range(2):  # what follows lies in the next file of the log
        world.store.put(PutMessage("T", 0, bytes(40_000)))
    world.put(b"good", UNIQ_KEY="v")
    first_file = f"commitlog/{0:020d}"
    world.plan.add(Fault("is_resident", first_file, error=None)).add(Fault("pread", first_file))
    world.store.residency.forget()
    with pytest.raises(OSError, match="Input/output"):
        await world.walk()
    asked = world.link.asked
    assert [command.header(CheckTransactionHeader).msg_id for command in asked] == ["v"]
    assert world.ledger.position == 0, "it is open"
    world.plan.clear()
    assert await world.walk(1000) == 3
    assert [command.header(CheckTransactionHeader).msg_id for command in asked[:2]] == ["v", "u"]


async def test_while_the_next_file_of_the_log_is_late_no_half_message_is_put_back() -> None:
    """The loop would wait for the file."""
    makes = HandWorker()
    world = World(makes=makes)
    await world.store.start()
    world.put(b"x" * 50_000)
    assert world.store.log.is_late
    assert (await world.walk(), world.link.asked) == (0, [])
    makes.run_all()
    assert (await world.walk(), len(world.link.asked)) == (1, 1)
    await world.store.stop()


async def test_with_the_write_pool_nobody_is_asked_before_the_copy_can_be_read() -> None:
    """The answer would not find it, each time again."""
    world = World(write_pool_enabled=True, write_pool_buffers=3)
    readable = []

    class Reader(ProducerLink):
        def send(self, command: Command) -> None:
            place = command.header(CheckTransactionHeader).commit_log_offset
            readable.append(world.store.read_record(place) is not None)

    world.producers.register("g", Reader(), "d")
    world.producers.unregister("g", world.link)
    await world.store.start()
    await world.check.start()
    world.put()
    await world.clock.run_for(70_000)
    assert readable == [True, True]
    await world.check.stop()
    await world.store.stop()


async def test_the_question_holds_the_new_copy_with_its_target(world: World) -> None:
    world.put(b"body")
    assert await world.walk() == 1
    _, copy = world.lying()
    (command,) = world.link.asked
    header, message = command.header(CheckTransactionHeader), decode_record(command.body_bytes)
    assert command.code == RequestCode.CHECK_TRANSACTION_STATE
    assert (header.commit_log_offset, header.tran_state_table_offset) == (copy.physical_offset, 1)
    assert (header.transaction_id, header.offset_msg_id, header.target_broker) == ("u", copy.offset_message_id, "b")
    assert (message.topic, message.queue_id, message.body, message.flag) == ("T", 3, b"body", 7)
    assert (message.physical_offset, message.queue_offset) == (copy.physical_offset, 1)
    assert copy.properties == message.properties | {"TRAN_PREPARED_QUEUE_OFFSET": "0"}
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"


@pytest.mark.parametrize("packed", [0, sys_flag.COMPRESSED])
@pytest.mark.parametrize(("key", "asked"), [("u", 0), ("other", 1)])
async def test_a_second_half_message_of_a_committed_transaction_is_not_asked_about(
    world: World, key: str, asked: int, packed: int
) -> None:
    """Apache's broker puts back what was committed a moment before; the producer would have it committed twice.

    It is found though nobody can unpack its body.
    """
    born_ms, body = world.clock.now_ms(), b"\x78\x9c no zlib"
    committed = PutMessage("T", 3, body, property_text.encode({"UNIQ_KEY": "u"}), sys_flag=8 | packed, born_ms=born_ms)
    assert world.store.put(committed).status is PutStatus.OK
    world.put(body, UNIQ_KEY=key)
    assert await world.walk() == 1
    assert (len(world.link.asked), len(world.lying())) == (asked, 1 + asked)


async def test_a_half_message_of_a_clock_that_ran_ahead_holds_up_no_other(world: World) -> None:
    world.clock.jump_wall(365 * 86_400_000)
    world.put(b"ahead")
    world.clock.jump_wall(-365 * 86_400_000)
    world.put(b"behind")
    assert await world.walk() == 2
    assert [decode_record(command.body_bytes).body for command in world.link.asked] == [b"ahead", b"behind"]


async def test_a_producer_that_does_not_read_is_passed_over(world: World) -> None:
    world.link.writable = False
    world.put()
    await world.walk()
    assert world.link.asked == []
    other = ProducerLink()
    world.producers.register("g", other, "c2")
    await world.walk()
    assert len(other.asked) == 1


async def test_nobody_is_asked_about_a_copy_that_could_not_be_stored(world: World) -> None:
    world.put(b"1")
    world.put(b"2")
    world.plan.add(Fault("pwrite", "commitlog", times=1))
    assert await world.walk() == 0
    assert world.link.asked == []
    assert await world.walk() == 2
    assert len(world.link.asked) == 2


async def test_a_half_message_that_cannot_be_given_up_stays(world: World) -> None:
    world.put(b"tired", TRANSACTION_CHECK_TIMES="15")
    world.plan.add(Fault("pwrite", "commitlog", times=1))
    assert await world.walk() == 0
    assert await world.walk() == 1
    assert [message.body for message in world.lying(GIVEN_UP)] == [b"tired"]
    topic = world.topics.get(GIVEN_UP)
    assert topic is not None
    assert (topic.read_queues, topic.write_queues) == (1, 1)
    assert world.link.asked == []
    assert world.ledger.at(0) is Standing.GIVEN_UP


async def test_a_half_message_of_a_deleted_topic_is_given_up_unasked(world: World) -> None:
    world.put(b"orphan")
    world.topics.delete("T")
    assert await world.walk() == 1
    assert [message.body for message in world.lying(GIVEN_UP)] == [b"orphan"]
    assert world.link.asked == []


async def test_what_was_taken_is_asked_about_though_the_limit_of_bodies_is_smaller_now(world: World) -> None:
    world.put(b"x" * 2000)
    world.store.config = replace(world.store.config, body_bytes_max=1000)
    assert await world.walk() == 1
    assert len(decode_record(world.link.asked[0].body_bytes).body) == 2000


@pytest.mark.parametrize("room", [0, 40, 100])
async def test_a_half_message_whose_copy_has_no_room_is_given_up_and_holds_up_no_other(world: World, room: int) -> None:
    """Another broker took it. With the mark of its name its copy would be too long, or with the number of checks."""
    taken = len(property_text.encode({"REAL_TOPIC": "T", "REAL_QID": "3", "PGROUP": "g", "UNIQ_KEY": "u"} | MARKED))
    world.put(b"full", big="x" * (PROPERTIES_BYTES_MAX - taken - room))
    world.put(b"next")
    assert await world.walk() == 2
    given_up = room < 100
    asked = [decode_record(command.body_bytes).body for command in world.link.asked]
    assert asked == ([b"next"] if given_up else [b"full", b"next"])
    assert [message.body for message in world.lying(GIVEN_UP)] == [b"full"][:given_up]


@pytest.mark.parametrize("damaged", [b"user\x01a\x01c", b"user\x01a\xffc", b"user\x01a\x00c", b"usr\x02\x01abc"])
async def test_a_damaged_byte_in_the_properties_of_a_half_message_costs_no_other(world: World, damaged: bytes) -> None:
    text = property_text.encode({"REAL_TOPIC": "T", "REAL_QID": "3", "PGROUP": "g", "UNIQ_KEY": "u"}) + damaged
    world.store.put(PutMessage(HALF, 0, b"damaged", text, born_ms=world.clock.now_ms()))
    world.put(b"next")
    for _ in range(2):
        await world.walk()
    asked = [decode_record(command.body_bytes).body for command in world.link.asked]
    assert asked == [b"damaged", b"next", b"damaged", b"next"]


async def test_a_damaged_copy_names_no_transaction_behind_itself(world: World) -> None:
    world.put(b"damaged", TRAN_PREPARED_QUEUE_OFFSET="1")
    world.put(b"next")
    assert await world.walk() == 2
    assert [decode_record(command.body_bytes).body for command in world.link.asked] == [b"damaged", b"next"]


async def test_a_record_without_a_target_is_passed(world: World) -> None:
    world.put(REAL_TOPIC="")
    world.put(REAL_TOPIC="SCHEDULE_TOPIC_XXXX")
    world.put(b"good")
    assert await world.walk() == 3
    assert len(world.link.asked) == 1
