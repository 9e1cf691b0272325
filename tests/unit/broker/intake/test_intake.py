"""What is done to every message, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RemoteError
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.delay.parking import Parking, TimerRules
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.stats import BrokerStats
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model import sys_flag
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message import Message, StoredMessage
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus


class World:
    def __init__(self) -> None:
        clock = ManualClock()
        config = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100)
        self.store = MessageStore(Path("/s"), config, files=MemoryFiles(), clock=clock, workers=InlineWorker)
        self.stats = BrokerStats("C", clock)
        self.intake = Intake(self.store, Parking(DelayLevels(), TimerRules(), clock), self.stats)

    def read(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        return decode_records(b"".join(self.store.get(topic, queue_id, 0, 32, 1 << 20).slices))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.start()
    yield world
    await world.store.stop()


async def test_a_message_is_stored_with_its_properties_and_counted(world: World) -> None:
    result = world.intake.put(PutMessage("T", 0, b"body"), {"TAGS": "A"})
    assert result.status is PutStatus.OK
    (message,) = world.read("T")
    assert (message.body, message.properties) == (b"body", {"TAGS": "A"})
    assert world.stats.put_times == 1


async def test_a_delayed_message_is_parked_and_counts_for_the_delay_topic(world: World) -> None:
    world.intake.put(PutMessage("T", 0, b"body"), {"DELAY": "3"})
    assert world.read("T") == []
    (parked,) = world.read("SCHEDULE_TOPIC_XXXX", 2)
    assert parked.properties["REAL_TOPIC"] == "T"
    assert world.stats.find("TOPIC_PUT_NUMS", "T") is None
    assert world.stats.find("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") is not None


@pytest.mark.parametrize(("born", "store"), [("10.0.0.1", "10.0.0.2"), ("::1", "10.0.0.2"), ("::1", "::2")])
async def test_host_bits_say_what_the_record_holds_whatever_the_sender_says(
    world: World, born: str, store: str
) -> None:
    lie = sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6 if "." in born else 0
    message = PutMessage("T", 0, b"x", sys_flag=lie, born_host=encode_host(born, 1), store_host=encode_host(store, 2))
    assert world.intake.put(message, {}).status is PutStatus.OK
    (stored,) = world.read("T")
    assert (stored.born_host, stored.store_host) == ((born, 1), (store, 2))


@pytest.mark.parametrize("flag", [sys_flag.INNER_BATCH, sys_flag.NEED_UNWRAP])
async def test_marks_of_an_inner_batch_are_refused(world: World, flag: int) -> None:
    with pytest.raises(RemoteError) as caught:
        world.intake.put(PutMessage("T", 0, b"x", sys_flag=flag), {})
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_batch_is_counted_by_message(world: World) -> None:
    body = encode_batch([Message("T", b"1"), Message("T", b"2")])
    result = world.intake.put_batch(PutMessage("T", 0, body), {"CLUSTER": "C"})
    assert result.count == 2
    assert [message.properties for message in world.read("T")] == [{"CLUSTER": "C"}] * 2
    assert world.stats.put_times == 2


async def test_a_message_the_store_refuses_is_counted_as_a_failure(world: World) -> None:
    result = world.intake.put(PutMessage("T", 0, b"x"), {"big": "x" * 40_000})
    assert result.status is PutStatus.PROPERTIES_TOO_LONG
    assert (world.stats.put_times, world.stats.put_failures) == (0, 1)


async def test_who_waits_is_counted_until_answered(world: World) -> None:
    result = world.intake.put(PutMessage("T", 0, b"x"), {})
    seen: list[tuple[PutStatus, int]] = []
    world.intake.when_durable(result, {}, lambda status: seen.append((status, world.intake.waiting)))
    assert seen == [(PutStatus.OK, 0)]
