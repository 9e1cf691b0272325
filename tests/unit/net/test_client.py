"""NetClient: one link per address, deadlines, reconnecting, going away, pushes."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.net.client import ASKED_AT_ONCE, InvokeTimeout, NetClient, some_at_once
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.link_pool import split_address
from rocketlake.net.memory_net import MakeLink, MemoryHost, MemoryNet
from rocketlake.net.peer import Peer
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.response_code import ResponseCode

ECHO, HOLD, GONE = 1, 2, 3


class CountingHost(MemoryHost):
    """Counts attempts to connect."""

    attempts = 0

    async def connect(self, make_link: MakeLink, host: str, port: int) -> asyncio.Protocol:
        self.attempts += 1
        return await super().connect(make_link, host, port)


class World:
    """A server `a:10911` and a client on an in-memory network."""

    def __init__(self, codec: Codec = Codec.JSON, limits: NetLimits | None = None) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.held: list[Request] = []
        self.pushes: list[Request] = []
        self.gone_times = 0
        self.oneways: list[bytes] = []
        self.server = self.new_server()
        self.client = NetClient(
            limits, self.clock, {40: self._pushed, 307: self._asked}, network=self.net.host("b"), codec=codec
        )

    def new_server(self) -> Server:
        rows = [Row(ECHO, self._echo, ANYBODY), Row(HOLD, self._hold, ANYBODY), Row(GONE, self._gone, ANYBODY)]
        return Server(Dispatcher(rows), host="a", port=10911, clock=self.clock, network=self.net.host("a"))

    def _echo(self, request: Request) -> Reply:
        if request.command.is_oneway:
            self.oneways.append(request.body)
        return Reply(0, body=request.body)

    def _hold(self, request: Request) -> Held:
        self.held.append(request)
        return HELD

    def _gone(self, request: Request) -> Reply:
        self.gone_times -= 1
        return Reply(ResponseCode.GO_AWAY if self.gone_times >= 0 else 0, body=request.body)

    def _pushed(self, request: Request) -> Reply:
        self.pushes.append(request)
        return Reply(0)

    def _asked(self, request: Request) -> Reply:
        return Reply(0, body=b"info")

    async def ask(self, code: int = ECHO, body: bytes = b"x", timeout_ms: float = 3000) -> Command:
        return await self.client.invoke("a:10911", Command.request(code, body=body), timeout_ms)

    async def close(self) -> None:
        await self.client.close()
        await self.server.stop(0)


@pytest.mark.parametrize("codec", Codec)
async def test_many_askers_share_one_link(codec: Codec) -> None:
    world = World(codec)
    await world.server.start()
    answers = await asyncio.gather(*(world.ask(body=b"%d" % number) for number in range(1000)))
    assert [answer.body for answer in answers] == [b"%d" % number for number in range(1000)]
    assert len(world.server.links) == 1
    await world.close()


async def test_no_answer_in_time_names_request_address_and_timeout() -> None:
    world = World()
    await world.server.start()
    call = asyncio.ensure_future(world.ask(HOLD, timeout_ms=500))
    await world.clock.run_for(450)
    assert not call.done()
    await world.clock.run_for(150)
    with pytest.raises(InvokeTimeout, match=r"REQUEST_2 to a:10911, timeout \d+") as error:
        await call
    assert isinstance(error.value, LinkError)
    await world.close()


async def test_after_a_timeout_the_link_is_used_on_and_the_late_answer_dropped() -> None:
    world = World()
    await world.server.start()
    call = asyncio.ensure_future(world.ask(HOLD, timeout_ms=100))
    await world.clock.run_for(200)
    with pytest.raises(InvokeTimeout):
        await call
    world.held[0].answer(Reply(0, body=b"late"))
    assert (await world.ask(body=b"next")).body == b"next"
    assert len(world.server.links) == 1
    await world.close()


async def test_an_asker_that_gives_up_leaves_nothing_behind() -> None:
    world = World()
    await world.server.start()
    call = asyncio.ensure_future(world.ask(HOLD))
    await world.clock.settle()
    call.cancel()
    await world.clock.settle()
    world.held[0].answer(Reply(0))
    assert (await world.ask()).code == 0
    await world.close()


async def test_a_one_way_request_arrives_and_waits_for_nothing() -> None:
    world = World()
    await world.server.start()
    await world.client.invoke_oneway("a:10911", Command.request(ECHO, body=b"one"))
    await world.ask(body=b"two")
    assert world.oneways == [b"one"]
    await world.close()


async def test_a_lost_link_fails_who_waits_and_the_next_asker_gets_a_new_one() -> None:
    world = World()
    await world.server.start()
    call = asyncio.ensure_future(world.ask(HOLD))
    await world.clock.settle()
    next(iter(world.server.links)).close()
    with pytest.raises(LinkError, match="closed"):
        await call
    assert (await world.ask()).code == 0
    await world.close()


async def test_an_address_that_fails_is_left_alone_for_a_moment_then_tried_again() -> None:
    world = World()
    with pytest.raises(LinkError, match="cannot connect"):
        await world.ask()
    await world.server.start()
    with pytest.raises(LinkError, match="cannot connect"):
        await world.ask()
    await world.clock.run_for(60)
    assert (await world.ask()).code == 0
    await world.close()


async def test_the_pause_after_failures_doubles_up_to_half_a_second_and_a_minute_later_begins_anew() -> None:
    world = World()
    host = CountingHost(world.net, "b")
    client = NetClient(clock=world.clock, network=host)

    async def is_tried() -> bool:
        before = host.attempts
        with pytest.raises(LinkError):
            await client.invoke("a:10911", Command.request(ECHO))
        return host.attempts > before

    for pauses_ms in ((50, 100, 200, 400, 500, 500), (50, 100)):
        assert await is_tried()
        for pause_ms in pauses_ms:
            await world.clock.run_for(pause_ms - 1)
            assert not await is_tried()
            await world.clock.run_for(2)
            assert await is_tried()
        await world.clock.run_for(60_000)
    await client.close()


async def test_askers_of_one_address_share_one_attempt_and_its_failure() -> None:
    world = World()
    results = await asyncio.gather(*(world.ask() for _ in range(5)), return_exceptions=True)
    assert [isinstance(result, LinkError) for result in results] == [True] * 5


async def test_a_loop_that_was_held_up_does_not_take_the_server_for_dead() -> None:
    """On a real loop: its timers come with the first turn behind the stall, a new connection needs some turns."""
    server = Server(Dispatcher([Row(ECHO, lambda request: Reply(0, body=request.body), ANYBODY)]), port=0)
    client = NetClient(NetLimits(connect_seconds=0.1))
    await server.start()
    try:
        asked = asyncio.create_task(client.invoke(server.address, Command.request(ECHO, body=b"here"), 5000))
        for _ in range(3):  # until the connection has been asked for
            await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251  # the stall itself
        assert (await asked).body == b"here"
    finally:
        await client.stop()
        await server.stop()


async def test_go_away_is_answered_by_asking_once_more_on_a_new_link() -> None:
    world = World()
    await world.server.start()
    world.gone_times = 1
    held = asyncio.ensure_future(world.ask(HOLD))
    await world.clock.settle()
    assert (await world.ask(GONE, b"again")).body == b"again"
    assert len(world.server.links) == 2
    world.held[0].answer(Reply(0, body=b"old link"))
    assert (await held).body == b"old link"
    await world.clock.run_for(1100)
    assert len(world.server.links) == 1
    await world.close()


async def test_a_second_go_away_is_an_error() -> None:
    world = World()
    await world.server.start()
    world.gone_times = 2
    with pytest.raises(LinkError, match="shutting down"):
        await world.ask(GONE)
    await world.close()


async def test_what_the_server_asks_is_served_by_handlers() -> None:
    world = World()
    await world.server.start()
    await world.ask()
    link = next(iter(world.server.links))
    link.send(Command.request(40, fields={"consumerGroup": "g"}))
    assert (await link.invoke(Command.request(307))).body == b"info"
    assert (await link.invoke(Command.request(4711))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert [request.command.fields for request in world.pushes] == [{"consumerGroup": "g"}]
    await world.close()


async def deaf_link(world: World) -> Peer:
    """The server's end of a link that it does not read from now on."""
    await world.server.start()
    await world.ask()
    link = next(iter(world.server.links))
    link._input.stop_reading()
    return link


async def test_a_client_waits_while_its_server_does_not_read() -> None:
    world = World(limits=NetLimits(write_high_bytes=10_000))
    link = await deaf_link(world)
    first = asyncio.ensure_future(world.ask(body=bytes(50_000)))
    await world.clock.settle()
    second = asyncio.ensure_future(world.ask(body=b"y"))
    third = asyncio.ensure_future(world.ask(body=b"z", timeout_ms=20))
    await world.clock.run_for(20)
    with pytest.raises(InvokeTimeout, match="does not read"):
        await third
    assert not second.done()
    link._input.go_on_reading()
    assert (await first).code == (await second).code == 0
    await world.close()


async def test_many_askers_at_once_do_not_pile_up_what_the_server_does_not_read() -> None:
    world = World(limits=NetLimits(write_high_bytes=100_000))
    link = await deaf_link(world)
    calls = [asyncio.ensure_future(world.ask(body=bytes(10_000), timeout_ms=60_000)) for _ in range(500)]
    await world.clock.settle()
    waiting = world.client._pool.ready("a:10911")
    assert waiting is not None
    assert len(waiting.asked) < 50
    for call in calls[20:120]:
        call.cancel()
    link._input.go_on_reading()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, Command) for result in results) == 400
    await world.close()


async def test_an_asker_whose_turn_has_come_looks_again_whether_the_server_reads() -> None:
    world = World(limits=NetLimits(write_high_bytes=100_000))
    link = await deaf_link(world)
    calls = [asyncio.ensure_future(world.ask(body=bytes(150_000), timeout_ms=60_000)) for _ in range(20)]
    await world.clock.settle()
    waiting, most = world.client._pool.ready("a:10911"), 1
    assert waiting is not None
    link._input.go_on_reading()
    while waiting.asked:
        await asyncio.sleep(0)
        most = max(most, len(waiting.asked))
    assert most == 1  # each is more than the server may be behind by
    await asyncio.gather(*calls)
    await world.close()


async def test_a_client_still_reads_while_its_server_does_not() -> None:
    world = World(limits=NetLimits(write_high_bytes=10_000))
    await world.server.start()
    held = asyncio.ensure_future(world.ask(HOLD))
    await world.clock.settle()
    link = next(iter(world.server.links))
    link._input.stop_reading()
    stuck = asyncio.ensure_future(world.ask(body=bytes(50_000)))
    await world.clock.settle()
    world.held[0].answer(Reply(0, body=b"answer"))
    assert (await held).body == b"answer"
    assert not stuck.done()
    link._input.go_on_reading()
    await stuck
    await world.close()


async def test_closing_the_client_ends_who_waits() -> None:
    world = World()
    await world.server.start()
    call = asyncio.ensure_future(world.ask(HOLD))
    await world.clock.settle()
    await world.client.close()
    with pytest.raises(LinkError):
        await call
    with pytest.raises(LinkError, match="the client is closed"):
        await world.ask()
    await world.server.stop(0)


async def test_giving_an_address_up_makes_the_next_request_connect_anew() -> None:
    world = World()
    await world.server.start()
    await world.ask()
    before = set(world.server.links)
    world.client.give_up("a:10911", "for a test")
    await world.ask()
    assert before.isdisjoint(world.server.links)
    await world.close()


@pytest.mark.parametrize("address", ["", "a", "a:", ":10911", "a:b", "a:70000"])
async def test_a_bad_address_is_the_caller_s_mistake(address: str) -> None:
    with pytest.raises(UsageError, match="not host:port"):
        split_address(address)


def test_addresses_may_be_ipv6() -> None:
    assert split_address("[::1]:9876") == ("::1", 9876)
    assert split_address(" localhost:9876 ") == ("localhost", 9876)


async def test_any_number_of_things_is_asked_about_some_at_once() -> None:
    asked: list[int] = []
    may_answer = asyncio.Event()

    async def ask(number: int) -> int:
        asked.append(number)
        await may_answer.wait()
        return -number

    asking = asyncio.ensure_future(some_at_once(ask, range(1000)))
    await ManualClock().settle()
    assert asked == list(range(ASKED_AT_ONCE))
    may_answer.set()
    assert await asking == [-number for number in range(1000)]


async def test_the_first_error_ends_the_asking() -> None:
    asked: list[int] = []

    async def ask(number: int) -> None:
        asked.append(number)
        raise LinkError("gone")

    with pytest.raises(LinkError):
        await some_at_once(ask, range(1000))
    assert len(asked) == ASKED_AT_ONCE
