"""The table of light queues: what a slave reads on of the log, what a topic made anew does to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.lite_messages import LiteMessages
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.lite import LITE_LIFE, Place
from rocketlake.model.topic import TopicConfig
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

PARENT = "Parent"
ROOT = Path("/store")


class World:
    """The table of a broker that is no master, and its store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        files = MemoryFiles(clock=self.clock)
        self.topics = TopicTable(ROOT / "topics.json", files, self.clock)
        attributes = {"message.type": "LITE", LITE_LIFE: "15"}
        self.topics.put(TopicConfig(PARENT, read_queues=2, write_queues=2, attributes=attributes))
        small = StoreConfig(index_enabled=False, commit_log_file_bytes=64 * 1024, consume_queue_file_bytes=2000)
        self.store = MessageStore(ROOT, small, files=files, clock=self.clock)
        messages = LiteMessages(self.store, None)
        self.queues = LightQueues(LiveConfig(BrokerConfig()), self.store, self.topics, messages, self.clock)

    def copy(self, lite: str, number: int, queue_id: int = 0) -> None:
        """A message comes from the master."""
        properties = {names.LITE_TOPIC: lite, names.INNER_MULTI_QUEUE_OFFSET: str(number), names.LITE_BEFORE: "0 0"}
        message = PutMessage(PARENT, queue_id, b"body", properties=property_text.encode(properties))
        assert self.store.put(message).status.is_stored

    def end(self, lite: str) -> int | None:
        newest = self.queues.newest(PARENT, lite)
        return None if newest is None else newest.end


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.store, world.queues:
        yield world


async def test_a_slave_reads_on_and_is_ready_when_it_leads(world: World) -> None:
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


async def test_a_slave_forgets_what_it_read_of_a_topic_that_was_made_anew(world: World) -> None:
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


async def test_a_master_that_follows_reads_anew(world: World) -> None:
    world.copy("a", 5)
    world.queues.lead()
    await world.clock.settle()
    assert world.queues.is_ready
    world.queues.follow()
    assert not world.queues.is_ready
    assert world.end("a") is None
    await world.clock.run_for(1500)
    assert world.end("a") == 6


async def test_a_slave_forgets_what_has_expired(world: World) -> None:
    world.copy("old", 1)
    await world.clock.run_for(1500)
    minute = 60_000
    await world.clock.run_for(18 * minute)
    world.copy("new", 2)
    assert world.queues.has(PARENT, "old"), "it lingers"
    await world.clock.run_for(4 * minute)
    assert not world.queues.has(PARENT, "old")
    assert world.queues.has(PARENT, "new")
