"""Requests that wait for bytes from the disk keep the order that they must keep."""

from __future__ import annotations

import logging
from pathlib import Path

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.logs import RareWarnings
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.store.config import StoreConfig
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

END, SECOND_END, VIEW = 37, 38, 33


async def test_another_request_of_the_asker_does_not_lead_its_line() -> None:
    clock, reads = ManualClock(), HandWorker()

    def workers(name: str) -> Worker:
        return reads if name == "store-reads" else InlineWorker(name)

    config = StoreConfig(commit_log_file_bytes=4096, index_slots=11, index_entries=100)
    store = MessageStore(Path("/store"), config, files=MemoryFiles(clock=clock), clock=clock, workers=workers)
    await store.start()
    store.put(PutMessage("T", 0, b"old"))
    first = store.log.list.files[0]
    turns = Turns(clock, 0.0005)
    requests = ColdRequests(LiveConfig(BrokerConfig()), store, turns)
    cold, served = {END, VIEW}, []

    def serve(request: Request) -> Reply:
        if request.code in cold:
            raise NotInMemory([(first.path, 0, first.wrote)])
        served.append(request.code)
        return Reply()

    warnings = RareWarnings(logging.getLogger("test"), clock=clock)
    link = Link(Endpoint(Dispatcher([]), NetLimits(), clock, Codec.JSON, warnings, turns))
    ends, views = requests.handler_in_order(serve), requests.handler(serve)
    assert ends(Request(Command(END), link, 0.0)) is HELD
    assert ends(Request(Command(SECOND_END), link, 0.0)) is HELD
    assert views(Request(Command(VIEW), link, 0.0)) is HELD
    cold.remove(VIEW)
    reads.run_all()
    while VIEW not in served:
        reads.run_all()
        await clock.settle()
    assert served == [VIEW]
    cold.remove(END)
    while len(requests):
        reads.run_all()
        await clock.settle()
    assert served == [VIEW, END, SECOND_END]
    await requests.stop()
    await store.stop()
