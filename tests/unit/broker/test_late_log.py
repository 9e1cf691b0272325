"""Requests that wait for the next file of the log: their order, their end, and which requests do not wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.late_log import LateLog
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import put_ok


class World:
    """A store whose first log file is nearly full, and whose second one is made when the test says so."""

    def __init__(self, new_link: Callable[[ManualClock], Link]) -> None:
        self.clock = ManualClock()
        self.makes = HandWorker()
        self.files = FaultyFiles(MemoryFiles(clock=self.clock))

        def workers(name: str) -> Worker:
            return self.makes if name == "store-files" else InlineWorker(name)

        config = StoreConfig(commit_log_file_bytes=4096, index_enabled=False)
        self.store = MessageStore(Path("/s"), config, files=self.files, clock=self.clock, workers=workers)
        self.live = LiveConfig(BrokerConfig(broker_name="b", waiting_sends_max=4))
        self.late = LateLog(self.live, self.store, Turns(self.clock, 0.0005), self.clock)
        self.late.serve = self.serve
        self.link = new_link(self.clock)
        self.served: list[int] = []
        self.answers: dict[int, Reply] = {}
        self.link.answer = lambda request, reply: self.answers.update({request.command.opaque: reply})  # type: ignore[method-assign]

    def serve(self, request: Request) -> Reply:
        self.served.append(request.command.opaque)
        return Reply(remark="stored")

    def ask(self, number: int, code: int = Code.SEND_MESSAGE_V2) -> Reply | Held | None:
        command = Command(code)
        command.opaque = number
        return self.late.check(Request(command, self.link, self.clock.monotonic()))


@pytest.fixture
async def world(new_link: Callable[[ManualClock], Link]) -> AsyncIterator[World]:
    world = World(new_link)
    await world.store.start()
    await world.late.start()
    put_ok(world.store, b"x" * 3200)
    assert world.store.log.is_late
    yield world
    await world.late.stop()
    world.makes.run_all()
    await world.store.stop()


async def test_puts_wait_in_order_and_requests_that_store_nothing_pass(world: World) -> None:
    assert [world.ask(number) for number in (1, 2)] == [HELD, HELD]
    assert world.ask(3, Code.PULL_MESSAGE) is None
    assert world.ask(4, Code.END_TRANSACTION) is HELD
    await world.clock.settle()
    assert world.served == []
    world.makes.run_all()
    assert world.ask(5) is HELD, "the file is there, and others wait for their turn"
    await world.clock.settle()
    assert world.served == [1, 2, 4, 5]
    assert {reply.remark for reply in world.answers.values()} == {"stored"}
    assert world.ask(6) is None


async def test_a_request_that_waited_for_the_disk_stands_in_line_like_the_others(world: World) -> None:
    first = world.store.log.list.files[0]
    cold = [NotInMemory([(first.path, 0, first.wrote)])]

    def serve(request: Request) -> Reply:
        if cold:
            raise cold.pop()
        return world.serve(request)

    requests = ColdRequests(world.live, world.store, Turns(world.clock, 0.0005))
    requests.check_late = world.late.check
    world.late.serve = requests.handler_in_order(serve)
    for number in (1, 2):
        command = Command(Code.END_TRANSACTION)
        command.opaque = number
        assert world.late.serve(Request(command, world.link, world.clock.monotonic())) is HELD
    await world.clock.settle()
    assert (cold, world.served, len(world.late.line)) == ([], [], 2)
    assert world.ask(3, Code.END_TRANSACTION) is HELD
    world.makes.run_all()
    await world.clock.settle()
    assert (world.served, sorted(world.answers)) == ([1, 2, 3], [1, 2, 3])


async def test_a_put_that_waits_too_long_is_refused_as_by_apache(world: World) -> None:
    assert world.ask(1) is HELD
    await world.clock.run_for(3000)
    assert world.ask(2) is HELD
    await world.clock.run_for(2600)
    assert set(world.answers) == {1}
    assert world.answers[1].code == ResponseCode.SYSTEM_ERROR
    assert "still being made after 5 s" in str(world.answers[1].remark)
    world.makes.run_all()
    await world.clock.settle()
    assert world.served == [2]


async def test_a_file_that_cannot_be_made_keeps_no_put_waiting(world: World) -> None:
    world.files.plan.add(Fault("open", "commitlog", times=1))
    assert world.ask(1) is HELD
    world.makes.run_all()
    await world.clock.settle()
    assert world.served == [1], "the put says why"


async def test_a_full_line_refuses_and_a_stop_answers_all_that_wait(world: World) -> None:
    assert [world.ask(number) for number in range(4)] == [HELD] * 4
    refused = world.ask(4)
    assert isinstance(refused, Reply) and refused.code == ResponseCode.SYSTEM_BUSY
    assert "4 requests wait for the next commit log file" in str(refused.remark)
    await world.late.stop()
    assert {reply.code for reply in world.answers.values()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert "the broker stops" in str(world.answers[2].remark)
    assert (set(world.answers), len(world.late.line), world.served) == ({0, 1, 2, 3}, 0, [])
    assert world.ask(5) is None
