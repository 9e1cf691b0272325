"""The log names members of one group whose subscriptions differ."""

from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.disagreement import is_unequal
from rocketlake.model.subscription import parse_subscription


class Nobody:
    def consumers_changed(self, group: str, askers: object) -> None: ...


class NamedLink:
    writable = True
    remote = "10.0.0.1", 5000
    user = None

    def __init__(self, address: str) -> None:
        self.address = address


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table = ConsumerTable(Nobody(), self.clock)
        self.links: dict[str, NamedLink] = {}

    def heartbeat(self, address: str, client: str, tags: str | None = "*") -> None:
        link = self.links.setdefault(address, NamedLink(address))
        wants = None if tags is None else [parse_subscription("T", tags), parse_subscription("%RETRY%g", "*")]
        self.table.register("g", link, client, "CONSUME_PASSIVELY", "CLUSTERING", "", wants)  # type: ignore[arg-type]
        self.clock.advance(1000)


@pytest.fixture
def world() -> World:
    return World()


def test_unequal_subscriptions_are_named_with_both_members(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.heartbeat("10.0.0.1:5", "one")
    world.heartbeat("10.0.0.2:6", "two", "TagB")
    (line,) = caplog.messages
    assert "group g: its members subscribe to different things" in line
    assert "one (10.0.0.1:5) wants [%RETRY%g: *, T: *]" in line
    assert "two (10.0.0.2:6) wants [%RETRY%g: *, T: TagB]" in line
    group = world.table.find("g")
    assert group is not None
    assert is_unequal(group.members.values())


def test_that_is_said_once_a_minute_and_ends_when_they_agree(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.heartbeat("a", "one")
    for _ in range(25):
        world.heartbeat("b", "two", "TagB")
        world.heartbeat("a", "one", None)  # a short heartbeat: it wants what it wanted
    assert len(caplog.messages) == 1
    world.clock.advance(30_000)
    world.heartbeat("b", "two", "TagB")
    assert len(caplog.messages) == 2
    world.clock.advance(60_000)
    world.heartbeat("b", "two")
    world.heartbeat("a", "one")
    assert len(caplog.messages) == 2
    group = world.table.find("g")
    assert group is not None
    assert not is_unequal(group.members.values())


def test_two_living_members_with_one_client_id_are_named(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.heartbeat("10.0.0.1:5", "same")
    world.heartbeat("10.0.0.2:6", "same")
    assert caplog.messages == []  # it may be one client that came back on a new connection
    world.heartbeat("10.0.0.2:6", "same")
    assert caplog.messages == []
    world.heartbeat("10.0.0.1:5", "same")
    (line,) = caplog.messages
    assert "client id same (10.0.0.2:6 and 10.0.0.1:5)" in line


def test_equal_members_are_not_news(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        world.heartbeat("a", "one", "TagA || TagB")
        world.heartbeat("b", "two", "TagA || TagB")
    assert caplog.messages == []
