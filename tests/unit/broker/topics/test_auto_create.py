from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.builtin import builtin_topics
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.topic import TopicConfig
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.protocol.command import Command

NewLink = Callable[[ManualClock], Link]


class HandSaver:
    """Saves when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[bool], None]] = []

    def when_saved(self, done: Callable[[bool], None]) -> None:
        self.waiting.append(done)

    def finish(self, *, ok: bool = True) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(ok)


class World:
    def __init__(self, *, enabled: bool = True, template_queues: int = 8) -> None:
        builtin = builtin_topics(
            "C",
            "B",
            template_queues=template_queues,
            auto_create=True,
            cluster_topic=True,
            broker_topic=True,
            delay_levels=18,
            trace_topic=None,
        )
        self.topics = TopicTable(Path("/t/topics.json"), MemoryFiles(), ManualClock(), builtin)
        self.saver = HandSaver()
        self.create = AutoCreate(self.topics, self.saver, LiveConfig(BrokerConfig(auto_create_topic=enabled)))


@pytest.mark.parametrize(("wanted", "template", "made"), [(4, 8, 4), (16, 8, 8), (8, 4, 4), (0, 8, 0), (-3, 8, 0)])
def test_a_new_topic_gets_the_smaller_number_of_queues(wanted: int, template: int, made: int) -> None:
    topic = World(template_queues=template).create.from_template("orders", "TBW102", wanted)
    assert topic is not None
    assert (topic.read_queues, topic.write_queues) == (made, made)


def test_a_new_topic_is_readable_and_writable_but_no_template() -> None:
    world = World()
    topic = world.create.from_template("orders", "TBW102", 4)
    assert topic is not None and topic.perm == 6
    assert world.topics.get("orders") == topic


def test_tbw102_makes_nothing_when_auto_creation_is_off() -> None:
    world = World(enabled=False)
    assert world.create.from_template("orders", "TBW102", 4) is None
    assert "orders" not in world.topics


def test_another_inheritable_template_works_even_then() -> None:
    world = World(enabled=False)
    assert world.create.from_template("orders", "C", 4) is not None


@pytest.mark.parametrize("template", ["nothing", "SELF_TEST_TOPIC"])
def test_a_template_must_exist_and_be_inheritable(template: str) -> None:
    assert World().create.from_template("orders", template, 4) is None


def test_group_topics_need_no_template_and_are_made_once() -> None:
    world = World(enabled=False)
    first = world.create.for_group("%RETRY%g", 2, ordered=True)
    assert first == TopicConfig("%RETRY%g", read_queues=2, write_queues=2, perm=6, order=True)
    assert world.create.for_group("%RETRY%g", 5) is first


def request_of(link: Link) -> Request:
    return Request(Command.request(10), link, 0.0)


async def test_a_request_waits_until_its_new_topic_is_on_disk(new_link: NewLink) -> None:
    world = World()
    link = new_link(ManualClock())
    world.create.from_template("orders", "TBW102", 4)
    served: list[Request] = []

    def serve(request: Request) -> Reply:
        served.append(request)
        return Reply()

    first, second = request_of(link), request_of(link)
    assert world.create.once_saved("orders", first, serve) is HELD
    assert world.create.once_saved("orders", second, serve) is HELD
    assert served == []
    world.saver.finish()
    assert served == [first, second]
    assert first.answered and second.answered
    third = request_of(link)
    assert isinstance(world.create.once_saved("orders", third, serve), Reply)


async def test_nothing_is_served_for_a_topic_that_cannot_be_saved(new_link: NewLink) -> None:
    world = World()
    world.create.from_template("orders", "TBW102", 4)
    first, second = (request_of(new_link(ManualClock())) for _ in range(2))
    served: list[Request] = []

    def serve(request: Request) -> Reply:
        served.append(request)
        return Reply()

    assert world.create.once_saved("orders", first, serve) is HELD
    world.saver.finish(ok=False)
    assert first.answered and not served
    assert world.create.once_saved("orders", second, serve) is HELD
    world.saver.finish()
    assert served == [second] and second.answered


async def test_a_handler_that_fails_late_is_answered_with_its_error(new_link: NewLink) -> None:
    world = World()
    world.create.from_template("orders", "TBW102", 4)
    request = request_of(new_link(ManualClock()))

    def fail(request: Request) -> Reply:
        raise ValueError("no")

    assert world.create.once_saved("orders", request, fail) is HELD
    world.saver.finish()
    assert request.answered


def test_builtin_topics_are_rocketmqs() -> None:
    topics = {topic.name: topic for topic in World().topics.all()}
    assert (topics["TBW102"].write_queues, topics["TBW102"].perm) == (8, 7)
    assert (topics["SCHEDULE_TOPIC_XXXX"].write_queues, topics["SCHEDULE_TOPIC_XXXX"].perm) == (18, 6)
    assert (topics["C"].write_queues, topics["C"].perm) == (16, 7)
    assert (topics["B"].write_queues, topics["B"].perm) == (1, 7)
    assert topics["rmq_sys_SYNC_BROKER_MEMBER_B"].perm == 1
    assert "RMQ_SYS_TRACE_TOPIC" not in topics


def test_a_topic_made_on_this_broker_only_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create.from_template("orders", "TBW102", 4)
    world.create.from_template("others", "TBW102", 4)
    (line,) = caplog.messages
    assert "topic orders was made by its first send, with 4 queues, on this broker only" in line
