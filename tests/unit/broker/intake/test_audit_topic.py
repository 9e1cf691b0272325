"""Lines of the audit in a topic: in order, none while the broker is a slave, the newest while the log is full."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.broker.cluster.role import Role
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.intake.audit_topic import LINES_MAX, AuditTopic
from rocketlake.model.topic import AUDIT_TOPIC
from tests.unit.store.store_world import World, bodies_of


class Audited:
    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store()
        self.role = Role(LiveConfig(BrokerConfig(broker_name="b")), "10.0.0.1", lambda: 10911)
        self.topic = AuditTopic(self.store, self.role, world.clock, self.role.address)

    def lines(self) -> list[bytes]:
        return bodies_of(self.store, AUDIT_TOPIC)


@pytest.fixture
async def audited() -> AsyncIterator[Audited]:
    world = World()
    audited = Audited(world)
    await audited.store.start()
    await audited.topic.start()
    yield audited
    await audited.topic.stop()
    await world.killed()


async def test_each_line_is_a_message(audited: Audited) -> None:
    for number in range(100):  # over several files of the log
        audited.topic.note(b"line %d" % number)
    assert audited.lines() == [b"line %d" % number for number in range(100)]


async def test_a_slave_stores_nothing(audited: Audited) -> None:
    audited.role.broker_id = 1
    audited.topic.note(b"slave")
    audited.role.broker_id, audited.role.pause = 0, "hands over"
    audited.topic.note(b"paused")
    assert audited.lines() == []
    await audited.topic.stop()
    audited.topic.note(b"stopped")
    audited.role.pause = ""
    await audited.topic.start()
    audited.topic.note(b"master")
    assert audited.lines() == [b"master"]


async def test_what_the_log_does_not_take_waits_and_the_newest_lines_are_kept(audited: Audited) -> None:
    audited.topic.note(b"before")
    audited.world.files.plan.add(Fault("pwrite", "commitlog", error=errno.ENOSPC))
    for number in range(LINES_MAX + 500):
        audited.topic.note(b"line %d" % number)
    assert audited.lines() == [b"before"]
    assert "audit.jsonl only" in audited.topic.health.troubles["audit topic"].reason
    audited.world.files.plan.clear()
    await audited.world.clock.run_for(3_000)
    assert audited.lines() == [b"before", *(b"line %d" % number for number in range(500, LINES_MAX + 500))]
    assert audited.topic.health.is_green
