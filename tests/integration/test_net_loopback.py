"""Server and client on real loopback sockets, well behaved: pipelining, order, deadlines, drain."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.net.client import InvokeTimeout, NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.network import CannotListen
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.response_code import ResponseCode

ECHO, HOLD = 1, 2


class Echo:
    """A server that echoes or holds, and a client of it."""

    def __init__(self, codec: Codec) -> None:
        self.held: list[Request] = []
        self.oneways = asyncio.Event()
        self.server = Server(Dispatcher([Row(ECHO, self._echo, ANYBODY), Row(HOLD, self._hold, ANYBODY)]), codec=codec)
        self.client = NetClient(codec=codec)

    def _echo(self, request: Request) -> Reply:
        if request.command.is_oneway:
            self.oneways.set()
        return Reply(0, body=request.body, fields=request.command.fields)

    def _hold(self, request: Request) -> Held:
        self.held.append(request)
        return HELD

    async def ask(self, command: Command, timeout_ms: float = 5000) -> Command:
        return await self.client.invoke(self.server.address, command, timeout_ms)


@pytest.fixture(params=list(Codec), ids=lambda codec: codec.name)
async def echo(request: pytest.FixtureRequest) -> AsyncIterator[Echo]:
    world = Echo(request.param)
    await world.server.start()
    yield world
    await world.client.close()
    await world.server.stop(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_thousand_pipelined_requests_are_answered_in_order(echo: Echo) -> None:
    machine = Connection()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo.server.port)
    for number in range(1000):
        writer.writelines(machine.send(Command(ECHO, opaque=number, body=b"%d" % number)))
    answers: list[Command] = []
    while len(answers) < 1000:
        answers += machine.receive_data(await asyncio.wait_for(reader.read(1 << 16), 5))
    assert [answer.opaque for answer in answers] == list(range(1000))
    assert [answer.body for answer in answers] == [b"%d" % number for number in range(1000)]
    writer.close()
    await writer.wait_closed()


async def test_a_thousand_askers_at_once_get_their_own_answers(echo: Echo) -> None:
    answers = await asyncio.gather(
        *(echo.ask(Command.request(ECHO, fields={"n": str(number)})) for number in range(1000))
    )
    assert [answer.fields for answer in answers] == [{"n": str(number)} for number in range(1000)]
    assert len(echo.server.links) == 1


async def test_a_large_body_goes_there_and_back(echo: Echo) -> None:
    body = bytes(range(256)) * (8 * 1024 * 4)
    assert (await echo.ask(Command.request(ECHO, body=body))).body == body


async def test_held_requests_are_answered_in_any_order(echo: Echo) -> None:
    calls = [asyncio.ensure_future(echo.ask(Command.request(HOLD, body=b"%d" % number))) for number in range(5)]
    await until(lambda: len(echo.held) == 5)
    for request in reversed(echo.held):
        request.answer(Reply(0, body=request.body))
    assert [(await call).body for call in calls] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_one_way_request_arrives(echo: Echo) -> None:
    await echo.client.invoke_oneway(echo.server.address, Command.request(ECHO))
    await asyncio.wait_for(echo.oneways.wait(), 5)
    assert (await echo.ask(Command.request(ECHO, body=b"after"))).body == b"after"


async def test_an_unknown_code_is_answered_and_the_link_lives(echo: Echo) -> None:
    answer = await echo.ask(Command.request(4711))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 4711 not supported"
    assert (await echo.ask(Command.request(ECHO))).code == 0
    assert len(echo.server.links) == 1


async def test_no_answer_in_time_is_a_timeout_and_not_before(echo: Echo) -> None:
    await echo.ask(Command.request(ECHO))  # connected: the time is that of the answer
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(InvokeTimeout):
        await asyncio.wait_for(echo.ask(Command.request(HOLD), timeout_ms=100), 30)
    assert loop.time() - begin > 0.09


async def test_a_drain_lets_open_requests_finish_and_takes_no_new_connection(echo: Echo) -> None:
    call = asyncio.ensure_future(echo.ask(Command.request(HOLD)))
    await until(lambda: len(echo.held) == 1)
    stopping = asyncio.ensure_future(echo.server.stop(5))
    await until(lambda: echo.server.draining)
    await asyncio.sleep(0)
    echo.held[0].answer(Reply(0, body=b"done"))
    assert (await call).body == b"done"
    await stopping
    with pytest.raises(LinkError):
        await echo.ask(Command.request(ECHO))
    assert not echo.server.links


async def test_a_request_to_a_draining_server_is_not_served_there(echo: Echo) -> None:
    first = asyncio.ensure_future(echo.ask(Command.request(HOLD)))
    await until(lambda: len(echo.held) == 1)
    stopping = asyncio.ensure_future(echo.server.stop(5))
    await until(lambda: echo.server.draining)
    with pytest.raises(LinkError):  # GO_AWAY, and nobody listens for the second try
        await echo.ask(Command.request(ECHO))
    echo.held[0].answer(Reply(0))
    assert (await first).code == 0
    await stopping


async def test_a_client_finds_its_server_again_after_a_restart(echo: Echo) -> None:
    await echo.ask(Command.request(ECHO))
    port = echo.server.port
    await echo.server.stop(0)
    again = Server(echo.server.dispatcher, port=port)
    await again.start()
    await until(lambda: echo.client._pool.ready(f"127.0.0.1:{port}") is None)
    assert (await echo.client.invoke(again.address, Command.request(ECHO))).code == 0
    echo.client.give_up(again.address, "the test ends")
    await again.stop(0)


class Counting(asyncio.Protocol):
    """A peer that counts answers and needs nothing of the loop for it."""

    def __init__(self) -> None:
        self.machine = Connection()
        self.answers = 0
        self.enough = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.answers += len(self.machine.receive_data(data))
        if self.answers >= 500:
            self.enough.set()


async def test_serving_makes_no_task_future_or_timer_per_request(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    transport, peer = await loop.create_connection(Counting, "127.0.0.1", echo.server.port)
    made: list[str] = []
    for name in ("create_task", "create_future", "call_later", "call_at", "call_soon"):
        original = getattr(loop, name)

        def counting(*args: object, _name: str = name, _original: Callable[..., object] = original, **kwargs: object):  # type: ignore[no-untyped-def]
            made.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(loop, name, counting)
    for number in range(500):
        transport.write(b"".join(bytes(part) for part in peer.machine.send(Command(ECHO, opaque=number))))
    await asyncio.wait_for(peer.enough.wait(), 5)
    monkeypatch.undo()
    transport.close()
    assert len(made) < 100


async def test_a_taken_port_is_named_with_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"cannot listen on 127.0.0.1:{port}.*listenPort"):
            await Server(Dispatcher([]), port=port).start()
    with pytest.raises(CannotListen, match=r"Cannot assign requested address.*bindAddress"):
        await Server(Dispatcher([]), host="192.0.2.1", port=0).start()  # an address of no machine, RFC 5737


async def test_nobody_listening_is_a_link_error_that_names_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = NetClient()
    with pytest.raises(LinkError, match=f"127.0.0.1:{port}"):
        await client.invoke(f"127.0.0.1:{port}", Command.request(ECHO))
    await client.close()
