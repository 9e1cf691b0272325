"""Owns the targets that are servers: a broker, a name server with a controller, a broker that is a member of a group.

Whatever requests come, each has an answer or ends its link; no handler fails by an error that is not ours; what comes
later is served.
Must not know   single request codes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import ProtocolError
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.results import PutMessage
from tests.fuzz.drawn_requests import RequestCase, requests
from tests.fuzz.target import Target
from tests.parity.worlds import Peer, World
from tests.replica_group import NAMESRV, ReplicaGroup

WAIT_STEPS, STEP_MS = 40, 2_000
STOP_STEPS = 60


class Failures(logging.Handler):
    """What was logged with a traceback: an error that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place else "?"
            self.lines.append(f"{record.getMessage()}: {error!r} at {where}")
        elif record.name == "asyncio":
            self.lines.append(record.getMessage())


class Asked:
    """One server, and connections to it: a new one when the last one was closed.

    They come from its own machine: others may not take anything away.
    """

    def __init__(self, clock: ManualClock, net: MemoryNet, host: str, port: int) -> None:
        self.clock, self.net, self.address = clock, net, (host, port)
        self.peer: Peer | None = None

    async def ask(self, case: RequestCase, opaque: int) -> Command | None:
        """The answer; None if the link was closed, or none is wanted."""
        code, fields, body, codec, flag = case
        try:
            parts = encode_command(Command(code, opaque=opaque, flag=flag, fields=fields, body=body), codec)
        except ProtocolError:  # not to be written in this form
            return None
        if self.peer is None or self.peer.lost:
            self.peer = Peer()
            await self.net.host("127.0.0.1").connect(lambda: self.peer, *self.address)
        peer = self.peer
        peer.transport.write(b"".join(bytes(part) for part in parts))
        await self.clock.settle()
        for _ in range(WAIT_STEPS):
            answer = next((each for each in peer.frames if each.opaque == opaque and each.is_response), None)
            if flag or peer.lost or answer is not None:
                return answer
            await self.clock.run_for(STEP_MS)
        raise AssertionError(f"{Code(code).name} has no answer after {WAIT_STEPS * STEP_MS} ms, its link is open")


async def _broker(many: list[RequestCase]) -> None:
    world = World(by_runs=len(many) % 2 == 0, sync=False)
    await world.start()
    world.broker.groups.find_or_create("g")
    for number in range(3):
        world.broker.store.put(PutMessage("T", number % 2, b"%d" % number, properties=b"KEYS\x01k\x02"))
    asked = Asked(world.clock, world.net, "10.0.0.100", 10911)
    for opaque, case in enumerate(many, 1):
        await asked.ask(case, opaque)
    alive = (int(Code.GET_MAX_OFFSET), {"topic": "T", "queueId": "0"}, b"", 0, 0)
    answer = await asked.ask(alive, 99_999)
    assert answer is not None, "it serves no more"
    await _stopped(world.clock, world.stop())


async def _name_server(many: list[RequestCase]) -> None:
    clock = ManualClock()
    net = MemoryNet(clock=clock)
    server = _new_name_server(clock, net)
    await server.start()
    asked = Asked(clock, net, NAMESRV, 9876)
    for opaque, case in enumerate(many, 1):
        await asked.ask(case, opaque)
    assert await asked.ask((int(Code.GET_BROKER_CLUSTER_INFO), {}, b"", 0, 0), 99_999), "it serves no more"
    await _stopped(clock, server.stop())


async def _stopped(clock: ManualClock, stop: Coroutine[Any, Any, None]) -> None:
    """A stop may wait for work that takes time, such as a change of the role."""
    stopping = asyncio.ensure_future(stop)
    for _ in range(STOP_STEPS):
        if stopping.done():
            return await stopping
        await clock.run_for(STEP_MS)
    raise AssertionError(f"it has not stopped after {STOP_STEPS * STEP_MS} ms")


def _new_name_server(clock: ManualClock, net: MemoryNet) -> NameServer:
    config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), enable_controller=True)
    return NameServer(config, clock=clock, files=MemoryFiles(clock=clock), network=net.host(NAMESRV))


async def _member(many: list[RequestCase]) -> None:
    group = ReplicaGroup(1)
    await group.start()
    asked = Asked(group.clock, group.net, group.hosts[0], 10911)
    for opaque, case in enumerate(many, 1):
        await asked.ask(case, opaque)
    assert await asked.ask((int(Code.GET_ALL_TOPIC_CONFIG), {}, b"", 0, 0), 99_999), "it serves no more"
    await _stopped(group.clock, group.stop())


def _played(play: Callable[[list[RequestCase]], Any]) -> Callable[[list[RequestCase]], None]:
    def check(many: list[RequestCase]) -> None:
        failures = Failures()
        root = logging.getLogger()
        root.addHandler(failures)
        try:
            asyncio.run(play(many))
        finally:
            root.removeHandler(failures)
        if failures.lines:
            raise AssertionError("; ".join(failures.lines))

    return check


@cache
def dispatchers() -> dict[str, Dispatcher]:
    """Of servers that are not started: whose codes there are."""
    clock = ManualClock()
    return {
        "broker": World(by_runs=False, sync=False).broker._dispatcher,
        "name-server": _new_name_server(clock, MemoryNet(clock=clock))._server._endpoint.dispatcher,
        "member": ReplicaGroup(1).brokers["10.0.0.11"]._dispatcher,
    }


def of_code(server: str, code: int) -> st.SearchStrategy[RequestCase]:
    """Requests of one code of one server."""
    return requests(code, dispatchers()[server]._handlers[code])


def _cases(server: str, most: int) -> st.SearchStrategy[list[RequestCase]]:
    def drawn() -> st.SearchStrategy[list[RequestCase]]:
        codes = sorted(dispatchers()[server]._handlers)
        one = st.sampled_from(codes).flatmap(lambda code: of_code(server, code))
        return st.lists(one, min_size=1, max_size=most)

    return st.deferred(drawn)


CHECKS = {"broker": _played(_broker), "name-server": _played(_name_server), "member": _played(_member)}
TARGETS = [
    Target("broker", _cases("broker", 8), CHECKS["broker"], 60),
    Target("name-server", _cases("name-server", 8), CHECKS["name-server"], 60),
    Target("member", _cases("member", 5), CHECKS["member"], 20),
]
