"""Requests that wait for bytes from the disk keep the order that they must keep."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.logs import RareWarnings
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.net.dispatcher import Dispatcher, run_handler
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.reply_steps import ReplySteps, in_steps
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

END, SECOND_END, THIRD_END, VIEW = 37, 38, 39, 33


class World:
    """A store with one message, whose reads from disk wait until the test runs them."""

    def __init__(self, **config: Any) -> None:
        self.clock, self.reads = ManualClock(), HandWorker()
        self.files = FaultyFiles(MemoryFiles(clock=self.clock))

        def workers(name: str) -> Worker:
            return self.reads if name == "store-reads" else InlineWorker(name)

        store = StoreConfig(commit_log_file_bytes=4096, index_slots=11, index_entries=100)
        self.store = MessageStore(Path("/store"), store, files=self.files, clock=self.clock, workers=workers)
        self.turns = Turns(self.clock, 0.0005)
        self.requests = ColdRequests(LiveConfig(BrokerConfig(**config)), self.store, self.turns)
        self.answers: list[Reply] = []

    async def start(self) -> None:
        await self.store.start()
        self.store.put(PutMessage("T", 0, b"old"))

    def link(self) -> Link:
        warnings = RareWarnings(logging.getLogger("test"), clock=self.clock)
        link = Link(Endpoint(Dispatcher([]), NetLimits(), self.clock, Codec.JSON, warnings, self.turns))
        link.answer = lambda _request, reply: self.answers.append(reply)  # type: ignore[method-assign]
        return link

    def request(self) -> Request:
        return Request(Command(1), self.link(), 0.0)

    def cold(self, times: int) -> Callable[[], str]:
        """A read that comes so often to bytes that are not in memory."""
        first = self.store.log.list.files[0]
        left = [None] * times

        def read() -> str:
            if left and not self.store.disk_wait.is_allowed:
                left.pop()
                raise NotInMemory([(first.path, 0, first.wrote)])
            return "read"

        return read

    def ask(self, reads: list[Callable[[], str]]) -> Reply | Held:
        def serve(request: Request) -> ReplySteps:
            found = []
            for read in reads:
                found.append((yield from self.requests.read(request, read)))
            return Reply(remark=" ".join(found))

        return run_handler(in_steps(serve, self.turns, self.clock), self.request())

    async def run(self) -> None:
        while self.reads.pending:
            self.reads.run_one()
            await self.clock.settle()

    async def stop(self) -> None:
        await self.requests.stop()
        await self.store.stop()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    yield world
    await world.stop()


async def test_a_request_in_steps_waits_between_them_and_each_read_that_was_done_stays_done(world: World) -> None:
    assert world.ask([world.cold(0)]) == Reply(remark="read")
    assert world.ask([world.cold(1), world.cold(0), world.cold(2)]) is HELD
    assert (len(world.requests), world.answers) == (1, [])
    await world.run()
    assert (len(world.requests), world.answers) == (0, [Reply(remark="read read read")])


async def test_a_request_in_steps_is_told_of_a_disk_that_cannot_be_read(world: World) -> None:
    world.files.plan.add(Fault("pread", "commitlog", times=1))
    assert world.ask([world.cold(1), world.cold(0)]) is HELD
    await world.run()
    (answer,) = world.answers
    assert answer.code == ResponseCode.SYSTEM_ERROR and "the store cannot be read" in str(answer.remark)


async def test_a_request_in_steps_is_answered_when_the_broker_stops_and_its_steps_end(world: World) -> None:
    assert world.ask([world.cold(1)]) is HELD
    await world.requests.stop()
    await world.run()
    assert [answer.remark for answer in world.answers] == ["the broker stops, ask another one"]
    assert world.ask([world.cold(1)]) == Reply(remark="read"), "from now on the loop waits itself"


async def test_no_more_requests_wait_than_may() -> None:
    world = World(held_pulls_max=1)
    await world.start()
    assert world.ask([world.cold(1), world.cold(1)]) is HELD
    refused = world.ask([world.cold(1)])
    assert isinstance(refused, Reply) and refused.code == ResponseCode.SYSTEM_BUSY
    await world.run()
    assert world.answers == [Reply(remark="read read")]
    await world.stop()


async def test_another_request_of_the_asker_does_not_lead_its_line(world: World) -> None:
    first, requests, link = world.store.log.list.files[0], world.requests, world.link()
    cold, served = {END, VIEW}, []

    def serve(request: Request) -> Reply:
        if request.code in cold:
            raise NotInMemory([(first.path, 0, first.wrote)])
        served.append(request.code)
        return Reply()

    ends, views = requests.handler_in_order(serve), requests.handler(serve)
    assert not requests.holds_from(link)
    for code in (END, SECOND_END, THIRD_END):
        assert ends(Request(Command(code), link, 0.0)) is HELD
    assert requests.holds_from(link) and not requests.holds_from(world.link())
    assert views(Request(Command(VIEW), link, 0.0)) is HELD
    cold.remove(VIEW)
    world.reads.run_all()
    while VIEW not in served:
        world.reads.run_all()
        await world.clock.settle()
    assert served == [VIEW]
    cold |= {SECOND_END}
    cold.remove(END)
    while END not in served:
        world.reads.run_all()
        await world.clock.settle()
    assert served == [VIEW, END], "the next one that must wait leads the line then"
    assert ends(Request(Command(VIEW), link, 0.0)) is HELD
    cold.clear()
    while len(requests):
        world.reads.run_all()
        await world.clock.settle()
    assert served == [VIEW, END, SECOND_END, THIRD_END, VIEW]
    assert not requests.holds_from(link)
