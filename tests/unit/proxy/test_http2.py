"""Calls over a real socket: kinds of methods, outcomes, deadlines, windows, the stop of the server."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.net.network import TcpNetwork
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.http2.framing import GrpcStatus
from rocketlake.proxy.http2.limits import GrpcLimits
from rocketlake.proxy.server import GrpcServer
from tests.http2_peer import Answer, Peer

LIMITS = GrpcLimits(message_bytes=1 << 20, link_bytes=2 << 20, stream_window_bytes=1 << 16)


class _Service:
    """Echo, Many (the message fifty times), Chat (a stream both ways), Wait (until it is told)."""

    def __init__(self, server: GrpcServer) -> None:
        self.told = asyncio.Event()
        self.waiting = asyncio.Event()
        self.given_up = 0
        self.held: list[Call] = []
        server.add("/t/Echo", lambda call, message: call.answer(message))
        server.add("/t/Many", self._many)
        server.add("/t/Chat", lambda call, message: call.write(message * 2), takes_stream=True)
        server.add("/t/Hold", lambda call, _: self.held.append(call))
        server.add("/t/Fail", self._fail)
        server.add_waiting("/t/Wait", self._wait)

    def _many(self, call: Call, message: bytes) -> None:
        for _ in range(50):
            call.write(message)
        call.end()

    def _fail(self, call: Call, message: bytes) -> None:
        raise ValueError("a fault of this test")

    async def _wait(self, call: Call, message: bytes) -> None:
        self.waiting.set()
        try:
            await self.told.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        call.answer(message)


@pytest.fixture
async def server() -> AsyncIterator[GrpcServer]:
    server = GrpcServer(host="127.0.0.1", port=0, clock=SystemClock(), network=TcpNetwork(), limits=LIMITS)
    async with server:
        yield server


@pytest.fixture
def service(server: GrpcServer) -> _Service:
    return _Service(server)


async def test_a_client_of_the_remoting_protocol_is_known_by_the_log(
    server: GrpcServer, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"".join(encode_command(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))))
    assert await reader.read() is not None  # until the server closes
    writer.close()
    assert "speaks no gRPC; a client of RocketMQ's remoting protocol asks a name server" in caplog.text


@pytest.mark.parametrize(
    ("method", "text"), [("GET", b"this port speaks gRPC"), ("POST", b"this port speaks gRPC"), ("HEAD", b"")]
)
async def test_a_request_that_is_no_call_hears_what_the_port_speaks(
    server: GrpcServer, service: _Service, method: str, text: bytes
) -> None:
    async with await Peer.connect(server.port) as peer:
        head = ((b":method", method.encode()), (b":scheme", b"http"), (b":path", b"/t/Echo"), (b":authority", b"test"))
        stream = peer.h2.send_request(head, end_stream=True)
        peer.answers[stream] = Answer()
        answer = await peer.over(stream)
        assert (answer.headers[b":status"], bytes(answer.data[: len(text) or 1])) == (b"415", text)
        assert (answer.status, answer.reset) == (GrpcStatus.INVALID_ARGUMENT, None)
        assert (await peer.over(peer.ask("/t/Echo", b"next"))).messages == [b"next"]


async def test_a_call_is_answered_with_its_message(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        first, second = peer.ask("/t/Echo", b"one"), peer.ask("/t/Echo", b"")
        answer = await peer.over(first)
        assert (answer.messages, answer.status) == ([b"one"], GrpcStatus.OK)
        assert (await peer.over(second)).messages == [b""]
        assert answer.headers[b"content-type"] == b"application/grpc"


async def test_a_large_message_needs_more_window_than_there_is(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        body = bytes(1 << 20)
        answers = [peer.ask("/t/Echo", body) for _ in range(5)]
        assert [len((await peer.over(stream)).messages[0]) for stream in answers] == [len(body)] * 5


async def test_a_stream_of_answers_waits_for_the_window_of_its_reader(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port, window=1000) as peer:
        answer = await peer.over(peer.ask("/t/Many", b"x" * 5000))
        assert answer.messages == [b"x" * 5000] * 50


async def test_a_stream_both_ways_answers_each_message_as_it_comes(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.begin("/t/Chat")
        for number in range(3):
            peer.send(stream, b"%d" % number)
            while len(peer.answers[stream].messages) <= number:
                assert await peer.read()
        peer.h2.end_stream(stream)
        assert (await peer.over(stream)).messages == [b"00", b"11", b"22"]


async def test_a_stream_keeps_no_byte_of_the_messages_that_are_served(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.begin("/t/Chat", (b"grpc-encoding", b"gzip"))
        for number in range(20):
            peer.send(stream, b"%d" % number)
        peer.h2.send_data(stream, _packed(b"packed") + _packed(b"begun")[:7])
        await peer.flush()
        while len(peer.answers[stream].messages) < 21:
            assert await peer.read()
        (link,) = server.links
        assert link.held_bytes == 7, "what is begun waits for its end"


def _packed(message: bytes) -> bytes:
    data = gzip.compress(message)
    return b"\1" + len(data).to_bytes(4, "big") + data


async def test_a_message_split_anywhere_is_put_together(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.begin("/t/Echo")
        for byte in b"\0\0\0\0\4abcd":
            peer.h2.send_data(stream, bytes((byte,)))
            await peer.flush()
        peer.h2.end_stream(stream)
        assert (await peer.over(stream)).messages == [b"abcd"]


async def test_a_gzip_message_is_unpacked_and_a_bomb_is_not(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        for body, status in ((b"abc", GrpcStatus.OK), (bytes(2 << 20), GrpcStatus.RESOURCE_EXHAUSTED)):
            packed = gzip.compress(body)
            stream = peer.begin("/t/Echo", (b"grpc-encoding", b"gzip"))
            peer.h2.send_data(stream, b"\1" + len(packed).to_bytes(4, "big") + packed, end_stream=True)
            assert (await peer.over(stream)).status == status


@pytest.mark.parametrize(
    ("path", "prefix", "status"),
    [
        ("/t/None", b"\0\0\0\0\1a", GrpcStatus.UNIMPLEMENTED),
        ("/t/Echo", b"\0\0\x20\0\0a", GrpcStatus.RESOURCE_EXHAUSTED),
        ("/t/Echo", b"\1\0\0\0\1a", GrpcStatus.UNIMPLEMENTED),
        ("/t/Echo", b"\0\0\0\0\1a" * 2, GrpcStatus.INVALID_ARGUMENT),
        ("/t/Echo", b"\0\0\0", GrpcStatus.INVALID_ARGUMENT),
        ("/t/Fail", b"\0\0\0\0\1a", GrpcStatus.INTERNAL),
    ],
)
async def test_what_cannot_be_served_ends_with_its_outcome_in_trailers(
    server: GrpcServer, service: _Service, path: str, prefix: bytes, status: GrpcStatus
) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.begin(path)
        peer.h2.send_data(stream, prefix, end_stream=True)
        answer = await peer.over(stream)
        assert (answer.headers[b":status"], answer.status, answer.messages) == (b"200", status, [])
        assert (await peer.over(peer.ask("/t/Echo", b"on"))).messages == [b"on"], "the link serves other calls"


async def test_a_call_that_is_refused_early_needs_no_more_of_its_request(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.begin("/t/Echo")
        peer.h2.send_data(stream, b"\0\xff\xff\xff\xff")
        answer = await peer.over(stream)
        assert (answer.status, answer.reset) == (GrpcStatus.RESOURCE_EXHAUSTED, 0)


async def test_a_deadline_ends_the_call_and_its_work(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        answer = await peer.over(peer.ask("/t/Wait", b"x", (b"grpc-timeout", b"100m")))
        assert (answer.status, service.given_up) == (GrpcStatus.DEADLINE_EXCEEDED, 1)
        assert (await peer.over(peer.ask("/t/Echo", b"x", (b"grpc-timeout", b"soon")))).status == 3


async def test_a_reset_ends_the_work_of_the_call_at_once(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        stream = peer.ask("/t/Wait", b"x")
        await peer.flush()
        await service.waiting.wait()
        peer.h2.reset_stream(stream)
        await peer.over(peer.ask("/t/Echo", b"behind the reset"))
        await asyncio.sleep(0)
        assert service.given_up == 1


async def test_the_end_of_a_link_ends_the_work_of_its_calls(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        peer.ask("/t/Wait", b"x")
        await peer.flush()
        await service.waiting.wait()
        peer.writer.close()
        await until(lambda: not server.links)
        await asyncio.sleep(0)
        assert service.given_up == 1


async def test_a_peer_gets_no_more_window_while_its_requests_wait(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        streams = [peer.ask("/t/Hold", bytes(900_000)) for _ in range(20)]
        reading = asyncio.create_task(peer.closed())
        most = LIMITS.link_bytes + len(streams) * LIMITS.stream_window_bytes + 1_000_000
        await until(lambda: server.links)
        (link,) = server.links
        await until(lambda: link.held_bytes > LIMITS.link_bytes)
        assert link.held_bytes <= most
        for _ in streams:
            await until(lambda: service.held)
            service.held.pop(0).answer(b"")
            assert link.held_bytes <= most
        reading.cancel()
        assert link.held_bytes == 0


async def until(condition: Callable[[], object]) -> None:
    """Awaits the condition; the test's own limit ends it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_a_stop_lets_calls_end_and_takes_no_new_ones(server: GrpcServer, service: _Service) -> None:
    async with await Peer.connect(server.port) as peer:
        peer.ask("/t/Wait", b"last")
        await peer.flush()
        await service.waiting.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        service.told.set()
        data = bytearray()
        while chunk := await peer.reader.read(65536):
            data += chunk
        await stopping
        assert (7, 0) in frame_kinds(data), "GOAWAY"
        assert b"\0\0\0\0\4last" in data


def frame_kinds(data: bytes | bytearray) -> list[tuple[int, int]]:
    """(kind, stream) of the frames."""
    found, position = [], 0
    while position + 9 <= len(data):
        size = int.from_bytes(data[position : position + 3], "big")
        found.append((data[position + 3], int.from_bytes(data[position + 5 : position + 9], "big")))
        position += 9 + size
    return found
