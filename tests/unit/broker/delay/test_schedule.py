"""Delivery of one level, step by step, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.delay.parking import Parking, TimerRules
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message import StoredMessage
from rocketlake.store.config import StoreConfig
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

LEVELS = DelayLevels()


class World:
    def __init__(self, reads: Worker | None = None, makes: Worker | None = None) -> None:
        self.clock = ManualClock()
        self.plan = FaultPlan()
        files = FaultyFiles(MemoryFiles(), self.plan)

        def workers(name: str) -> Worker:
            return {"store-reads": reads, "store-files": makes}.get(name) or InlineWorker(name)

        config = StoreConfig(commit_log_file_bytes=16 * 1024, index_slots=10, index_entries=100)
        self.store = MessageStore(Path("/s"), config, files=files, clock=self.clock, workers=workers)
        self.progress = DelayProgress(Path("/s/d.json"), files, self.clock, lambda: self.store.kept_end)
        self.schedule = DelaySchedule(self.store, LEVELS, self.progress, self.clock)
        self.store.on_arrival = self._arrived

    def _arrived(self, topic: str, queue_id: int, *_: int) -> None:
        if topic == "SCHEDULE_TOPIC_XXXX":
            self.schedule.message_parked(queue_id)

    def park(
        self,
        body: bytes = b"m",
        *,
        level: int = 1,
        topic: str = "T",
        queue_id: int = 0,
        key: str = "",
        born_ms: int = 5,
    ) -> None:
        """`key`: its unique key."""
        properties = {"DELAY": str(level), "TAGS": "A"} | ({"UNIQ_KEY": key} if key else {})
        message = PutMessage(topic, queue_id, body, flag=3, born_ms=born_ms)
        Parking(LEVELS, TimerRules(), self.clock).park(message, properties)
        message.properties = property_text.encode(properties)
        assert self.store.put(message).status is PutStatus.OK

    def delivered(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(topic, queue_id, 0, 32, 1 << 20).slices))

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.delivered()]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.start()
    yield world
    await world.schedule.stop()
    await world.store.stop()


async def test_a_due_message_reaches_its_topic_and_queue_as_it_was_sent(world: World) -> None:
    world.park(b"body", queue_id=2)
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    (message,) = world.delivered(queue_id=2)
    assert (message.body, message.flag, message.born_ms, message.tags) == (b"body", 3, 5, "A")
    assert message.properties["REAL_TOPIC"] == "T"  # Apache leaves its marks in the delivered copy, so do we


async def test_a_message_that_lies_on_disk_only_is_delivered_once_a_worker_has_read_it() -> None:
    reads = HandWorker()
    world = World(reads)
    await world.store.start()
    world.park(b"first")
    world.park(b"second")
    world.store.queues.flush()
    for call in ("is_resident", "pread_now"):
        world.plan.add(Fault(call, times=1, error=None))
    await world.schedule.start()
    world.clock.advance(1000)
    await world.clock.settle()
    waited = []
    while reads.pending:
        waited.append(world.bodies())
        reads.run_one()
        await world.clock.settle()
    assert waited == [[], []], "entries, then records"
    assert world.bodies() == [b"first", b"second"]
    await world.schedule.stop()
    await world.store.stop()


async def test_while_the_next_file_of_the_log_is_late_no_message_is_delivered() -> None:
    """The loop would wait for the file."""
    makes = HandWorker()
    world = World(makes=makes)
    await world.store.start()
    world.park(b"x" * 13_000)
    world.clock.advance(1000)
    assert world.store.log.is_late
    assert (world.schedule.deliver_due(1).ms, world.bodies()) == (100, [])
    makes.run_all()
    assert (world.schedule.deliver_due(1).ms, world.bodies()) == (0, [b"x" * 13_000])
    await world.store.stop()


async def test_what_waits_for_a_topic_goes_when_the_topic_is_deleted(world: World) -> None:
    world.park(b"old")
    world.store.delete_topics(["T"])
    world.park(b"new")
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    assert world.bodies() == [b"new"]
    assert world.progress.next_offset(1) == 2


async def begin_again(world: World) -> None:
    """Another broker, whose progress is as old as it can be, begins to deliver from the same log."""
    await world.schedule.stop()
    files = MemoryFiles()
    world.progress = DelayProgress(Path("/s/other.json"), files, world.clock, lambda: world.store.kept_end)
    world.schedule = DelaySchedule(world.store, LEVELS, world.progress, world.clock)
    await world.schedule.start()


async def test_what_was_delivered_before_the_start_is_not_delivered_again(world: World) -> None:
    for number in range(24):
        world.park(b"%d" % number, key=f"K{number}", level=1 + number % 2)
    await world.schedule.start()
    await world.clock.run_for(1500)
    await begin_again(world)
    world.park(b"24", key="K24")
    await world.clock.run_for(5000)
    assert sorted(map(int, world.bodies())) == list(range(25))
    assert (world.progress.next_offset(1), world.progress.next_offset(2)) == (13, 12)


async def test_messages_that_nobody_got_do_not_end_the_search_for_copies(world: World) -> None:
    """One that Apache's broker tries again while later ones go, one of a deleted topic, one that no store takes."""
    world.park(b"tried again", key="A")
    world.park(b"gone", key="B", topic="Gone")
    world.park(b"refused", key="C", topic="T" * 128)
    world.park(b"delivered", key="D")
    world.store.delete_topics(["Gone"])
    world.progress.move(1, 1)
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    await begin_again(world)
    await world.clock.run_for(1500)
    assert world.bodies() == [b"delivered", b"tried again"]
    assert world.progress.next_offset(1) == 4


async def test_a_message_that_is_tried_again_for_minutes_does_not_end_the_search_for_copies(world: World) -> None:
    world.park(b"tried again", key="A")
    world.park(b"delivered", key="D")
    world.progress.move(1, 1)
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    await begin_again(world)
    world.plan.add(Fault("pwrite", "commitlog", times=2100))
    while world.schedule.deliver_due(1).ms:  # a full disk
        assert world.progress.next_offset(1) == 0
    assert world.bodies() == [b"delivered", b"tried again"]


async def test_a_message_without_a_key_comes_once_and_those_behind_it(world: World) -> None:
    for number in range(3):
        world.park(b"%d" % number, key=f"K{number % 2}" * (number % 2))
    await world.schedule.start()
    await world.clock.run_for(1500)
    first = world.delivered()
    await begin_again(world)
    await world.clock.run_for(1500)
    assert world.delivered() == first
    assert [message.message_id for message in first][1] == "K1"


@pytest.mark.parametrize(("key", "born_ms"), [("K", 6), ("L", 5), ("", 5)])
async def test_a_message_that_only_resembles_a_delivered_one_is_delivered(world: World, key: str, born_ms: int) -> None:
    world.park(key=key, born_ms=born_ms)  # this one was lost with a master that delivered it, say
    world.park(key="K")
    world.progress.move(1, 1)
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    await begin_again(world)
    await world.clock.run_for(1000)
    assert len(world.bodies()) >= 2


async def test_nothing_is_delivered_before_the_log_of_the_start_is_known(world: World) -> None:
    world.park(key="K")
    world.store.durability.demand(Demands(reads=(Stage.CONFIRMED,)))
    world.park(b"unconfirmed", key="L")
    await world.schedule.start()
    await world.clock.run_for(2000)
    world.store.durability.demand(Demands())
    assert world.bodies() == []
    await world.clock.run_for(200)
    assert world.bodies() == [b"m", b"unconfirmed"]


async def test_nothing_comes_before_its_time(world: World) -> None:
    world.park()
    world.clock.advance(999)
    assert world.schedule.deliver_due(1).ms == 1
    assert world.bodies() == []


async def test_an_empty_level_rests_until_a_message_comes(world: World) -> None:
    assert world.schedule.deliver_due(1).ms is None


async def test_a_level_sleeps_until_its_next_message_and_not_by_polling(world: World) -> None:
    await world.schedule.start()
    await world.clock.settle()
    idle = world.clock.sleeping
    world.park(level=2)
    await world.clock.settle()
    assert world.clock.sleeping == idle + 1
    await world.clock.run_for(5000)
    assert world.bodies() == [b"m"]
    assert world.clock.sleeping == idle


async def test_a_wall_clock_set_back_does_not_delay_longer_than_the_level(world: World) -> None:
    world.park()
    world.clock.jump_wall(-3_600_000)
    world.schedule.deliver_due(1)
    assert world.bodies() == [b"m"]


async def test_a_wall_clock_set_forward_is_noticed_within_a_minute(world: World) -> None:
    await world.schedule.start()
    world.park(level=18)
    await world.clock.settle()
    world.clock.jump_wall(7_200_000)
    await world.clock.run_for(60_000)
    assert world.bodies() == [b"m"]


async def test_a_message_the_store_does_not_take_is_tried_again_at_the_same_place(world: World) -> None:
    world.park(b"1")
    world.park(b"2")
    world.clock.advance(1000)
    world.plan.add(Fault("pwrite", "commitlog", times=1))
    assert world.schedule.deliver_due(1).ms == 100
    assert world.progress.next_offset(1) == 0


async def test_more_messages_than_a_batch_give_others_a_turn(world: World) -> None:
    for number in range(40):
        world.park(b"%d" % number)
    world.clock.advance(1000)
    assert world.schedule.deliver_due(1).ms == 0
    assert world.progress.next_offset(1) == 32
    world.schedule.deliver_due(1)
    assert world.schedule.deliver_due(1).ms is None
    assert world.store.max_offset("T", 0) == 40


async def test_properties_that_only_apaches_broker_takes_are_delivered_as_they_are(world: World) -> None:
    """A value that holds the separator of names: our broker refuses to write it, and the level stood still."""
    odd = b"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02a\x01b\x01c\x02"
    assert world.store.put(PutMessage("SCHEDULE_TOPIC_XXXX", 0, b"odd", odd)).status is PutStatus.OK
    world.park(b"good")
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    assert world.bodies() == [b"odd", b"good"]
    assert world.delivered()[0].properties["a"] == "b\x01c"


async def test_the_half_topic_is_never_a_target(world: World) -> None:
    world.park(topic="RMQ_SYS_TRANS_HALF_TOPIC")
    world.park(b"good")
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    assert world.delivered("RMQ_SYS_TRANS_HALF_TOPIC") == []
    assert world.bodies() == [b"good"]


async def test_an_offset_outside_the_queue_goes_back_into_it(world: World) -> None:
    world.progress.move(1, 99)
    world.park()
    world.clock.advance(1000)
    assert world.schedule.deliver_due(1).ms is None
    assert world.progress.next_offset(1) == 1


async def test_a_message_that_was_taken_is_delivered_though_the_limit_of_bodies_is_smaller_now(world: World) -> None:
    world.park(b"x" * 2000)
    world.store.config = replace(world.store.config, body_bytes_max=1000)
    world.clock.advance(1000)
    world.schedule.deliver_due(1)
    assert [len(body) for body in world.bodies()] == [2000]
