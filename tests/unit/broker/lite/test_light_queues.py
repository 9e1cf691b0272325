"""The table of light queues: what a slave reads on of the log, what a topic made anew does to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.model.lite import Place
from tests.unit.broker.lite.light_world import PARENT, LightWorld


@pytest.fixture
async def world() -> AsyncIterator[LightWorld]:
    """Of a broker that is no master."""
    world = LightWorld()
    await world.start()
    yield world
    await world.stop()


async def test_a_slave_reads_on_and_is_ready_when_it_leads(world: LightWorld) -> None:
    for number in range(300):
        world.copy("a", number)
    await world.clock.run_for(1500)
    assert world.end("a") == 300
    assert not world.queues.is_ready, "a slave gives no numbers"
    world.copy("a", 300)
    world.copy("b", 7, queue_id=1)
    world.queues.lead()
    await world.clock.settle()
    assert world.queues.is_ready
    assert (world.end("a"), world.end("b")) == (301, 8)


async def test_a_master_whose_disk_refuses_for_a_while_is_ready_later(world: LightWorld) -> None:
    for number in range(100):
        world.copy("a", number)
    plan = world.disk.files.plan
    plan.add(Fault("is_resident", "commitlog", error=None)).add(Fault("pread", "commitlog"))
    world.store.residency.forget()
    world.queues.lead()
    await world.clock.run_for(3000)
    assert not world.queues.is_ready
    assert "cannot be read" in str(world.queues.health.troubles)
    plan.clear()
    await world.clock.run_for(2000)
    assert world.queues.is_ready
    assert not world.queues.health.troubles
    assert world.end("a") == 100


async def test_a_slave_forgets_what_it_read_of_a_topic_that_was_made_anew(world: LightWorld) -> None:
    """It may see the new one only: both changes can come with one copy of the table of topics."""
    for number in range(20):
        world.copy("old", 100 + number)
        world.copy("both", 100 + number, queue_id=1)
    await world.clock.run_for(1500)
    assert world.end("old") == 120
    world.store.delete_topics([PARENT])
    for number in range(30):
        world.copy("new", 900 + number)
        world.copy("both", 900 + number, queue_id=1)
    await world.clock.run_for(1500)
    assert (world.end("old"), world.end("new"), world.end("both")) == (None, 930, 930)
    newest = world.queues.newest(PARENT, "both")
    assert newest is not None
    assert newest.place == Place(1, 29)


async def test_a_master_that_follows_reads_anew(world: LightWorld) -> None:
    world.copy("a", 5)
    world.queues.lead()
    await world.clock.settle()
    assert world.queues.is_ready
    world.queues.follow()
    assert not world.queues.is_ready
    assert world.end("a") is None
    await world.clock.run_for(1500)
    assert world.end("a") == 6


async def test_a_slave_forgets_what_has_expired(world: LightWorld) -> None:
    world.copy("old", 1)
    await world.clock.run_for(1500)
    minute = 60_000
    await world.clock.run_for(18 * minute)
    world.copy("new", 2)
    assert world.queues.has(PARENT, "old"), "it lingers"
    await world.clock.run_for(4 * minute)
    assert not world.queues.has(PARENT, "old")
    assert world.queues.has(PARENT, "new")
