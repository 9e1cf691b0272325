"""Rights to write: the checks in Apache's order, topics that take plain sends, messages tried too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.protocol.versions import MAX_RECONSUME_SINCE
from tests.requests import send_header


class World:
    def __init__(self) -> None:
        files, self.clock = MemoryFiles(), ManualClock(1_000_000)
        self.config = LiveConfig(BrokerConfig(broker_name="b", start_accept_send_ms=2_000_000))
        self.topics = TopicTable(Path("/t/topics.json"), files, self.clock)
        self.groups = GroupTable(Path("/t/groups.json"), files, self.clock, auto_create=False)
        self.locks = QueueLocks(self.clock)
        self.rights = SendRights(self.config, self.topics, self.groups, self.locks, self.clock)


def refusal(world: World, topic: str) -> int | None:
    try:
        world.rights.check(topic)
    except Refused as refused:
        return refused.code
    return None


async def test_the_first_check_that_fails_is_told() -> None:
    """Everything is wrong at first; one thing after the other is put right."""
    world = World()
    world.topics.put(TopicConfig("a b", order=True))
    world.config.update({"brokerPermission": "4"})
    assert refusal(world, "a b") == Code.SYSTEM_ERROR
    await world.clock.run_for(2_000_000)
    assert refusal(world, "a b") == Code.NO_PERMISSION
    world.config.update({"brokerPermission": "6"})
    assert refusal(world, "a b") == Code.INVALID_PARAMETER
    assert refusal(world, "SCHEDULE_TOPIC_XXXX") == Code.NO_PERMISSION
    assert refusal(world, "unknown") is None


def test_topics_that_need_more_than_the_store_take_no_plain_sends() -> None:
    world = World()
    assert world.rights.plain_topic("T") is None
    world.topics.put(TopicConfig("T"))
    assert world.rights.plain_topic("T") is world.topics.get("T")
    world.topics.unsaved.add("T")
    assert world.rights.plain_topic("T") is None
    for name, attributes in (("%RETRY%g", {}), ("C", {"cleanup.policy": "COMPACTION"}), ("SCHEDULE_TOPIC_XXXX", {})):
        world.topics.put(TopicConfig(name, attributes=attributes))
        assert world.rights.plain_topic(name) is None


def test_a_retry_too_many_is_a_dead_letter_as_is_any_of_an_ordered_group() -> None:
    world = World()
    with pytest.raises(Refused, match="subscription group not exist, g"):
        world.rights.is_spent(send_header("%RETRY%g"), MAX_RECONSUME_SINCE)
    world.groups.put(GroupConfig("g", retry_max_times=2))

    def is_spent(times: int, asked: int | None = None, version: int = MAX_RECONSUME_SINCE) -> bool:
        return world.rights.is_spent(send_header("%RETRY%g", reconsume_times=times, max_reconsume_times=asked), version)

    assert [is_spent(2), is_spent(3)] == [False, True]
    assert [is_spent(5, 5), is_spent(6, 5), is_spent(5, 5, MAX_RECONSUME_SINCE - 1)] == [False, True, True]
    world.locks.lock("g", "client", [MessageQueue("T", "b", 0)])
    assert is_spent(0)
