from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.flow_control import FlowControl, Lane
from rocketlake.broker.intake.intake import SlowAppend
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.topics.table import TopicTable
from rocketlake.net.link import Link
from rocketlake.net.request import Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode

NewLink = Callable[[ManualClock], Link]
LANES = {code: lane.value for code, lane in enumerate(Lane)}
CODES = {lane: code for code, lane in enumerate(Lane)}


class World:
    def __init__(self, new_link: NewLink) -> None:
        self.clock = ManualClock()
        self.config = LiveConfig(BrokerConfig(waiting_sends_max=2))
        self.waiting_sends = 0
        self.slow_append = SlowAppend(float("-inf"), 0.0)
        topics = TopicTable(Path("topics.json"), MemoryFiles(), self.clock)
        self.control = FlowControl(
            self.config,
            LANES,
            lambda: self.waiting_sends,
            lambda: self.slow_append,
            self.clock,
            quotas=Quotas(topics, None, self.clock),
        )
        self.link = new_link(self.clock)

    def remark(self, lane: Lane, age_ms: float = 0) -> str | None:
        request = Request(Command.request(CODES[lane]), self.link, self.clock.monotonic() - age_ms / 1000)
        reply = self.control.check(request)
        if reply is None:
            return None
        assert reply.code == ResponseCode.SYSTEM_BUSY
        return reply.remark


@pytest.fixture
async def world(new_link: NewLink) -> World:
    return World(new_link)


@pytest.mark.parametrize(
    ("lane", "limit_ms"), [(Lane.SEND, 200), (Lane.PULL, 5000), (Lane.HEARTBEAT, 31_000), (Lane.ADMIN, 5000)]
)
async def test_a_request_older_than_its_lane_allows_is_not_served(world: World, lane: Lane, limit_ms: int) -> None:
    assert world.remark(lane, limit_ms - 1) is None
    assert (world.remark(lane, limit_ms + 1) or "").startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")


async def test_quick_requests_are_always_served(world: World) -> None:
    assert world.remark(Lane.QUICK, 1e9) is None


async def test_age_does_not_count_when_fast_failure_is_off(world: World) -> None:
    world.config.update({"brokerFastFailureEnable": "false"})
    assert world.remark(Lane.SEND, 1e9) is None


async def test_only_so_many_sends_wait_for_the_disk(world: World) -> None:
    world.waiting_sends = 1
    assert world.remark(Lane.SEND) is None
    world.waiting_sends = 2
    assert (world.remark(Lane.SEND) or "").startswith("[OVERLOAD]system busy")
    assert world.remark(Lane.PULL) is None


async def test_which_reason_a_busy_has_is_logged_with_its_numbers(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.clock.advance(60_000)
    for _ in range(3):
        world.remark(Lane.SEND, 300)
    world.slow_append = SlowAppend(59.9, 1.25)
    world.remark(Lane.PULL, 6000)
    remark = world.remark(Lane.SEND, 300)
    assert remark == (
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while:"
        " 300 ms in the queue, 200 ms are allowed; an append took 1250 ms"
    )
    world.waiting_sends = 2
    world.remark(Lane.SEND)
    assert [text.partition(" is refused: ")[2].partition("]")[0] for text in caplog.messages] == [
        "[TIMEOUT_CLEAN_QUEUE",
        "[TIMEOUT_CLEAN_QUEUE",
        "[PCBUSY_CLEAN_QUEUE",
        "[OVERLOAD",
    ]
    assert caplog.messages[0].startswith("a send request of ")
    assert caplog.messages[1].startswith("a pull request of ")
    assert "2 sends wait for the disk" in caplog.messages[3]
