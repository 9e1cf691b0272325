"""What one link does with its peer, good or bad. The network is in memory, the clock is moved by hand."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.net.asked import InvokeTimeout
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.network import Network
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import FLAG_ONEWAY, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.response_code import ResponseCode

ECHO, HOLD, FAIL, BIG, NOW, SLOW = 1, 2, 3, 4, 5, 6
BIG_BODY = bytes(64 * 1024)


class Peer(asyncio.Protocol):
    """A peer that writes what the test says and keeps what it is sent, chunk by chunk."""

    def __init__(self) -> None:
        self.machine = Connection()
        self.commands: list[Command] = []
        self.chunks = 0
        self.largest_chunk = 0
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.chunks += 1
        self.largest_chunk = max(self.largest_chunk, len(data))
        self.commands += self.machine.receive_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def write(self, *commands: Command) -> None:
        self.transport.write(b"".join(bytes(part) for command in commands for part in self.machine.send(command)))


class World:
    """A server on an in-memory network, and the requests its handler holds."""

    def __init__(self, limits: NetLimits | None = None, codec: Codec = Codec.JSON) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.held: list[Request] = []
        self.served = 0
        self.slow: list[int] = []
        rows = [
            Row(ECHO, self._echo, ANYBODY),
            Row(HOLD, self._hold, ANYBODY),
            Row(FAIL, lambda request: Reply(1 // 0), ANYBODY),
            Row(BIG, lambda request: Reply(0, body=[memoryview(BIG_BODY)]), ANYBODY),
            Row(NOW, self._answer_now, ANYBODY),
            Row(SLOW, self._slow, ANYBODY),
        ]
        network = self.network("a")
        self.server = Server(Dispatcher(rows), host="a", limits=limits, clock=self.clock, network=network, codec=codec)

    def network(self, host: str) -> Network:
        return self.net.host(host)

    def _echo(self, request: Request) -> Reply:
        self.served += 1
        return Reply(0, body=request.body)

    def _hold(self, request: Request) -> Held:
        self.held.append(request)
        return HELD

    def _slow(self, request: Request) -> Reply:
        self.clock.advance(1)
        self.slow.append(request.command.opaque)
        return Reply(0)

    def _answer_now(self, request: Request) -> Held:
        request.answer(Reply(0, remark="now"))
        return HELD

    async def connect(self) -> Peer:
        if not self.server.links:
            await self.server.start()
        peer = await self.network("b").connect(Peer, "a", self.server.port)
        assert isinstance(peer, Peer)
        return peer

    async def settle(self) -> None:
        await self.clock.settle()

    async def pass_time(self, seconds: float) -> None:
        await self.clock.run_for(seconds * 1000)


def echo(number: int, body: bytes | None = b"x") -> Command:
    return Command(ECHO, opaque=number, body=body)


def opaques(peer: Peer) -> list[int]:
    return [command.opaque for command in peer.commands]


async def test_all_answers_of_one_chunk_leave_in_one_write() -> None:
    world = World()
    peer = await world.connect()
    peer.write(*(echo(number) for number in range(100)))
    await world.settle()
    assert opaques(peer) == list(range(100))
    assert peer.chunks == 1


async def test_a_link_with_many_requests_lets_others_have_their_turn() -> None:
    """A consumer's thousand pulls may come in one chunk; a send behind them must not wait for them all."""
    world = World(NetLimits(turn_seconds=0.002))
    greedy, modest = await world.connect(), await world.connect()
    greedy.write(*(Command(SLOW, opaque=number) for number in range(20)))
    modest.write(Command(SLOW, opaque=100))
    await world.settle()
    assert opaques(greedy) == list(range(20))
    assert opaques(modest) == [100]
    assert 0 < world.slow.index(100) <= 6  # behind two turns of three


async def test_links_with_many_requests_share_the_turns() -> None:
    """However many they are, the loop is kept for one turn only before it looks at its sockets again."""
    world = World(NetLimits(turn_seconds=0.002))
    peers = [await world.connect() for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.write(*(Command(SLOW, opaque=100 * number + at) for at in range(9)))
    turns: list[int] = []

    def count() -> None:
        turns.append(len(world.slow))
        if len(world.slow) < 27:
            asyncio.get_running_loop().call_soon(count)

    while not world.slow:  # noqa: ASYNC110
        await asyncio.sleep(0)
    count()
    await world.settle()
    assert [opaques(peer) for peer in peers] == [[100 * number + at for at in range(9)] for number in range(3)]
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 3
    assert {opaque // 100 for opaque in world.slow[:12]} == {0, 1, 2}


async def test_held_requests_answered_in_one_turn_leave_in_one_write() -> None:
    world = World()
    peer = await world.connect()
    peer.write(*(Command(HOLD, opaque=number) for number in range(10)))
    await world.settle()
    assert peer.commands == []
    for request in reversed(world.held):
        request.answer(Reply(0))
    await world.settle()
    assert opaques(peer) == list(reversed(range(10)))
    assert peer.chunks == 1


async def test_a_handler_may_answer_before_it_returns_held() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(NOW, opaque=5))
    await world.settle()
    assert [(command.opaque, command.remark) for command in peer.commands] == [(5, "now")]
    assert all(link.held == 0 for link in world.server.links)


async def test_a_request_is_answered_once() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()
    world.held[0].answer(Reply(0))
    world.held[0].answer(Reply(1))
    await world.settle()
    assert [command.code for command in peer.commands] == [0]


async def test_an_answer_after_the_link_closed_is_dropped() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()
    peer.transport.abort()
    await world.settle()
    world.held[0].answer(Reply(0))
    assert world.held[0].asker.held == 0
    assert world.held[0].asker.closed


@pytest.mark.parametrize("code", [ECHO, HOLD, FAIL, 4711])
async def test_a_one_way_request_is_never_answered(code: int) -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(code, opaque=1, flag=FLAG_ONEWAY), echo(2))
    await world.settle()
    for request in world.held:
        request.answer(Reply(0))
    await world.settle()
    assert opaques(peer) == [2]
    assert all(link.held == 0 for link in world.server.links)


async def test_an_unknown_code_does_not_close_the_link() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(4711, opaque=1), echo(2))
    await world.settle()
    assert [command.code for command in peer.commands] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 0]
    assert not peer.lost


async def test_garbage_closes_the_link_after_the_good_requests_before_it(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer, other = await world.connect(), await world.connect()
    peer.transport.write(b"".join(bytes(part) for part in Connection().send(echo(1))) + b"\xff" * 20)
    await world.settle()
    assert opaques(peer) == [1]
    assert peer.lost
    assert "closed: frame of 4294967295 bytes" in caplog.text
    other.write(echo(2))
    await world.settle()
    assert opaques(other) == [2]


async def test_an_answer_too_large_for_a_frame_becomes_an_error(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()
    world.held[0].answer(Reply(0, body=[memoryview(BIG_BODY)] * 300))
    await world.settle()
    assert [command.code for command in peer.commands] == [ResponseCode.SYSTEM_ERROR]
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize("codec", Codec)
async def test_an_answer_with_a_mistake_of_ours_in_it_becomes_an_error(
    codec: Codec, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(codec=codec)
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1), echo(2))
    await world.settle()
    world.held[0].answer(Reply(0, fields={"offset": object()}))  # type: ignore[dict-item]
    await world.settle()
    assert [(command.opaque, command.code) for command in peer.commands] == [(2, 0), (1, ResponseCode.SYSTEM_ERROR)]
    # Not by the text: Spark, where it was started before in this process, has its own idea of how logs are written.
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_an_idle_link_is_closed_and_a_busy_one_is_not() -> None:
    world = World()
    idle, busy = await world.connect(), await world.connect()
    for _ in range(5):
        await world.pass_time(30)
        busy.write(echo(1))
    await world.settle()
    assert idle.lost
    assert not busy.lost


async def test_a_frame_that_does_not_end_closes_the_link() -> None:
    world = World(NetLimits(frame_seconds=10))
    peer = await world.connect()
    data = b"".join(bytes(part) for part in Connection().send(echo(1, bytes(1000))))
    for position in range(12):
        peer.transport.write(data[position : position + 1])
        await world.pass_time(1)
    assert peer.lost


async def test_nothing_more_is_served_to_a_peer_that_does_not_read() -> None:
    world = World(NetLimits(write_high_bytes=100_000))
    peer = await world.connect()
    peer.transport.pause_reading()
    peer.write(*(echo(number, bytes(10_000)) for number in range(1000)))
    await world.settle()
    assert world.served < 50
    peer.transport.resume_reading()
    for _ in range(100):
        await world.settle()
    assert opaques(peer) == list(range(1000))


async def test_what_a_peer_sends_while_it_does_not_read_stays_in_its_own_socket() -> None:
    world = World(NetLimits(write_high_bytes=100_000))
    peer = await world.connect()
    peer.transport.pause_reading()
    for number in range(200):
        peer.write(echo(number, bytes(10_000)))
        await asyncio.sleep(0)
    await world.settle()
    assert peer.transport.get_write_buffer_size() > 1_000_000


async def test_a_peer_that_reads_again_gets_what_waited_in_portions() -> None:
    world = World(NetLimits(write_high_bytes=100_000))
    peer = await world.connect()
    peer.write(*(Command(HOLD, opaque=number) for number in range(50)))
    await world.settle()
    peer.transport.pause_reading()
    for request in world.held:
        request.answer(Reply(0, body=[memoryview(BIG_BODY)]))
        await asyncio.sleep(0)
    peer.transport.resume_reading()
    for _ in range(10):
        await world.settle()
    assert opaques(peer) == list(range(50))
    assert peer.largest_chunk < 300_000


async def test_after_hooks_see_the_answers_of_held_requests() -> None:
    world = World()
    seen: list[tuple[int, int]] = []
    world.server.dispatcher.after.append(lambda request, reply: seen.append((request.code, reply.code)))
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()
    world.held[0].answer(Reply(7))
    assert seen == [(HOLD, 7)]


async def test_answers_of_held_requests_for_a_peer_that_does_not_read_are_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(NetLimits(write_high_bytes=100_000, unsent_bytes=1_000_000))
    peer = await world.connect()
    peer.write(*(Command(HOLD, opaque=number) for number in range(100)))
    await world.settle()
    peer.transport.pause_reading()
    for request in world.held:
        request.answer(Reply(0, body=[memoryview(BIG_BODY)]))
        await asyncio.sleep(0)
    await world.settle()
    assert peer.lost
    assert "does not read" in caplog.text


async def test_a_peer_that_does_not_read_for_long_is_closed() -> None:
    world = World(NetLimits(write_high_bytes=100_000, stuck_seconds=20))
    peer = await world.connect()
    peer.transport.pause_reading()
    peer.write(*(Command(BIG, opaque=number) for number in range(10)))
    await world.pass_time(15)
    assert not peer.lost
    await world.pass_time(10)
    assert peer.lost


async def test_too_many_held_requests_are_answered_busy(caplog: pytest.LogCaptureFixture) -> None:
    world = World(NetLimits(held=3))
    peer = await world.connect()
    peer.write(*(Command(HOLD, opaque=number) for number in range(5)))
    await world.settle()
    assert [(command.opaque, command.code) for command in peer.commands] == [
        (3, ResponseCode.SYSTEM_BUSY),
        (4, ResponseCode.SYSTEM_BUSY),
    ]
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "is refused as busy: 3 requests of this link are held" in line
    for request in world.held:
        request.answer(Reply(0))
    peer.write(Command(HOLD, opaque=9))
    await world.settle()
    assert len(world.held) == 4


async def test_one_connection_too_many_is_closed_at_once() -> None:
    world = World(NetLimits(connections=2))
    peers = [await world.connect() for _ in range(3)]
    await world.settle()
    assert [peer.lost for peer in peers] == [False, False, True]
    peers[0].transport.abort()
    await world.settle()
    assert not (await world.connect()).lost


async def test_the_server_may_ask_its_client() -> None:
    world = World()
    peer = await world.connect()
    link = next(iter(world.server.links))
    call = asyncio.ensure_future(link.invoke(Command.request(307), 1000))
    await world.settle()
    peer.write(Command.reply(peer.commands[0], 0, body=b"info"))
    assert (await call).body == b"info"
    link.send(Command.request(40))
    await world.settle()
    assert (peer.commands[1].code, peer.commands[1].is_oneway) == (40, True)


async def test_a_client_that_does_not_answer_times_out_and_its_late_answer_is_dropped() -> None:
    world = World()
    peer = await world.connect()
    link = next(iter(world.server.links))
    call = asyncio.ensure_future(link.invoke(Command.request(307), 1000))
    await world.pass_time(0.9)
    assert not call.done()
    await world.pass_time(0.2)
    with pytest.raises(InvokeTimeout, match="GET_CONSUMER_RUNNING_INFO"):
        await call
    peer.write(Command.reply(peer.commands[0], 0), echo(5))
    await world.settle()
    assert opaques(peer)[1:] == [5]


async def test_a_lost_link_ends_what_waits_for_it_and_tells_who_wants_to_know() -> None:
    world = World()
    told: list[object] = []
    peer = await world.connect()
    link = next(iter(world.server.links))
    link.on_close.append(told.append)
    world.server.on_link_lost.append(told.append)
    call = asyncio.ensure_future(link.invoke(Command.request(307), 60_000))
    await world.settle()
    peer.transport.abort()
    with pytest.raises(LinkError, match="closed"):
        await call
    await world.settle()
    assert told == [link, link]
    with pytest.raises(LinkError):
        await link.invoke(Command.request(307), 1000)


async def test_requests_of_ours_that_wait_are_limited() -> None:
    world = World(NetLimits(pending=2))
    await world.connect()
    link = next(iter(world.server.links))
    futures = [link.start(Command.request(307), 1000) for _ in range(2)]
    with pytest.raises(LinkError, match="2 requests"):
        link.start(Command.request(307), 1000)
    link.close()
    await world.settle()
    assert all(isinstance(future.exception(), LinkError) for future in futures)


async def stopped_while(world: World, act: Callable[[], None]) -> None:
    stopping = asyncio.ensure_future(world.server.stop(5))
    await world.pass_time(0.02)
    act()
    await world.pass_time(5)
    await stopping


async def test_a_draining_server_says_go_away_to_who_understands_it() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()

    def act() -> None:
        peer.write(
            Command(ECHO, opaque=2, version=479),
            Command(ECHO, opaque=3, version=475),
            Command(ECHO, opaque=4, version=479, flag=FLAG_ONEWAY),
        )

    async def answer_late() -> None:
        await world.clock.sleep(0.05)
        world.held[0].answer(Reply(0))

    late = asyncio.ensure_future(answer_late())
    await stopped_while(world, act)
    await late
    assert [(command.opaque, command.code) for command in peer.commands] == [
        (2, ResponseCode.GO_AWAY),
        (3, 0),
        (1, 0),
    ]
    assert peer.commands[0].remark == "please go away"
    await world.settle()
    assert peer.lost


async def test_a_drain_ends_at_its_time_with_requests_still_held() -> None:
    world = World()
    peer = await world.connect()
    peer.write(Command(HOLD, opaque=1))
    await world.settle()
    stopping = asyncio.ensure_future(world.server.stop(0.05))
    await world.pass_time(0.04)
    assert not stopping.done()
    await world.pass_time(0.02)
    await stopping
    await world.settle()
    assert peer.lost
    with pytest.raises(LinkError):
        await world.network("b").connect(Peer, "a", world.server.port)
