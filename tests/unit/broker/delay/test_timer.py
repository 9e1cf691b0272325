"""The timer between its two duties: what enters before a tick is delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.stored_message import copy_message
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_record
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.results import PutStatus
from rocketlake.store.timer.checkpoint import TimerCheckpoint
from tests.histories.timer_history import Broker


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    clock = ManualClock()
    broker = Broker(MemoryFiles(clock=clock), clock)
    await broker.start()
    await clock.settle()
    yield broker
    await broker.stop()


def deliver(broker: Broker) -> list[str]:
    """Deliver what is due, without a turn for the duty that enters; the names in the topic."""
    while broker.timer.deliver_due() == 0.0:
        pass
    return sorted(message.body.decode() for message in broker.delivered())


async def test_a_recall_counts_though_its_tick_is_over_before_it_enters(broker: Broker) -> None:
    """It was acknowledged in time; then the loop was late, or the clock was set forward."""
    due = {"TIMER_DELIVER_MS": str(broker.clock.now_ms() + 3000)}
    for number in range(3):
        broker.send(f"m{number}", due)
    await broker.clock.settle()
    for number in range(600):  # more than one batch that enters
        broker.send(f"later{number}", {"TIMER_DELAY_MS": "60000"})
    broker.send("recall", {**due, "TIMER_DEL_UNIQKEY": "m1"})
    broker.clock.jump_wall(10_000)
    assert deliver(broker) == ["m0", "m2"]


class Slave:
    """A store whose log comes from another master, with messages for a time; it becomes the master."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.broker = Broker(MemoryFiles(clock=self.clock), self.clock)
        self.store = self.broker.store
        self.places: dict[str, PhysicalOffset] = {}

    def send(self, name: str, delay_ms: int, **more: str) -> None:
        due = self.clock.now_ms() + delay_ms
        sent = self.broker.send(name, {"TIMER_DELIVER_MS": str(due), **more})
        assert sent is not None
        self.places[name] = PhysicalOffset(sent[0])

    def copy(self, name: str, topic: str) -> None:
        """As the old master stores it: in its own topic when it is due, or in the timer topic anew."""
        record = self.store.read_record(self.places[name])
        assert record is not None
        parked = decode_record(record)
        message = copy_message(parked, topic, 0)
        message.properties = property_text.encode(parked.properties)
        assert self.store.put(message).status is PutStatus.OK

    async def lead(self, read_ms: int) -> list[str]:
        """Take the place of a master that says that it has delivered until then; what is in the topic at last."""
        offset = self.store.max_offset(TIMER_TOPIC, 0)
        told = TimerCheckpoint(read_ms=read_ms, queue_offset=offset, master_queue_offset=offset)
        self.broker.timer.follow(told)
        await self.broker.timer.start()
        await self.clock.run_for(100_000)
        return [message.body.decode() for message in self.broker.delivered()]


@pytest.fixture
async def slave() -> AsyncIterator[Slave]:
    slave = Slave()
    await slave.store.start()
    yield slave
    await slave.broker.stop()


async def test_what_the_old_master_stored_anew_comes_once_behind_many_others(slave: Slave) -> None:
    """Both lie in the timer topic; the last of the two counts."""
    slave.send("anew", 90_000)
    slave.send("taken back", 90_000)
    slave.send("recall", 90_000, TIMER_DEL_UNIQKEY="taken back")
    for number in range(2100):
        slave.send(f"m{number}", 50_000)
    await slave.clock.run_for(40_000)
    for name in ("anew", "taken back", "recall"):
        slave.copy(name, TIMER_TOPIC)
    assert sorted(await slave.lead(slave.clock.now_ms())) == sorted(["anew", *(f"m{n}" for n in range(2100))])


async def test_what_the_old_master_passed_by_when_it_was_a_slave_is_delivered(slave: Slave) -> None:
    """Its wheel turns on while it cannot store: what it says of that time is not believed."""
    slave.send("before", 3000)
    slave.send("passed by", 6000)
    await slave.clock.run_for(4000)
    slave.copy("before", "T")
    await slave.clock.run_for(300_000)
    assert await slave.lead(slave.clock.now_ms()) == ["before", "passed by"]


async def test_what_was_delivered_last_is_found_behind_many_others_of_the_tick(slave: Slave) -> None:
    now = slave.clock.now_ms()
    for number in range(2100):
        slave.send(f"m{number}", 40_000)
    slave.send("delivered", 30_000)
    await slave.clock.run_for(32_000)
    slave.copy("delivered", "T")
    await slave.clock.run_for(10_000)
    slave.send("last", 500)
    assert sorted(await slave.lead(now + 39_000)) == sorted(["delivered", "last", *(f"m{n}" for n in range(2100))])
