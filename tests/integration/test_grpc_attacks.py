"""What an attacker may try on the gRPC port: each costs its own connection at most, and others are served."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.net.network import TcpNetwork
from rocketlake.proxy.http2.limits import GrpcLimits
from rocketlake.proxy.server import GrpcServer
from tests.http2_peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Peer,
    raw_frame,
)

# Literal HPACK fields without index: the request of a call, as bytes that need no encoder.
_FIELDS = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/t/Echo"), (b":authority", b"a"),
           (b"content-type", b"application/grpc"))  # fmt: skip
LIMITS = GrpcLimits(handshake_seconds=1.0, stalled_seconds=1.0, unsent_bytes=1 << 20)


def literal(name: bytes, value: bytes) -> bytes:
    """A header field of HPACK as it is, not indexed; for lengths below 127."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


BLOCK = b"".join(literal(*each) for each in _FIELDS)


@pytest.fixture
async def server() -> AsyncIterator[GrpcServer]:
    server = GrpcServer(host="127.0.0.1", port=0, clock=SystemClock(), network=TcpNetwork(), limits=LIMITS)
    server.add("/t/Echo", lambda call, message: call.answer(message))
    server.add("/t/Hold", lambda call, message: None)
    async with server:
        yield server
        async with await Peer.connect(server.port) as peer:
            assert (await peer.over(peer.ask("/t/Echo", b"others"))).messages == [b"others"]


async def is_closed(server: GrpcServer, data: bytes, *, has_preface: bool = True) -> None:
    """Send it, read nothing meanwhile; the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write((PREFACE + raw_frame(SETTINGS, 0, 0, b"") if has_preface else b"") + data)
        await writer.drain()
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    finally:
        writer.close()
    while server.links:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert server.links == {}


async def test_a_rapid_reset_ends_its_link(server: GrpcServer) -> None:
    frames = [
        raw_frame(HEADERS, END_HEADERS, stream, BLOCK) + raw_frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 8001, 2)
    ]
    await is_closed(server, b"".join(frames))


async def test_continuations_without_end_are_cut(server: GrpcServer) -> None:
    more = raw_frame(CONTINUATION, 0, 1, literal(b"x", b"y"))
    await is_closed(server, raw_frame(HEADERS, 0, 1, BLOCK) + more * 2000)


async def test_pings_whose_answers_are_not_read_end_their_link(server: GrpcServer) -> None:
    await is_closed(server, raw_frame(PING, 0, 0, bytes(8)) * 100_000)


async def test_a_flood_of_settings_ends_its_link(server: GrpcServer) -> None:
    await is_closed(server, raw_frame(SETTINGS, 0, 0, b"") * 50_000)


async def test_a_bomb_of_header_fields_is_reset_and_kept_nowhere(server: GrpcServer) -> None:
    # One field of 3.9 KB goes into the table, then it is named by its index 12,000 times: 47 MB of headers.
    value = bytes(3900)
    first = b"\x40\x01x" + b"\x7f" + _integer(len(value) - 127) + value
    bomb = raw_frame(HEADERS, END_HEADERS, 1, BLOCK + first + b"\xbe" * 12_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(PREFACE + raw_frame(SETTINGS, 0, 0, b"") + bomb)
    await reader.readuntil(raw_frame(RST_STREAM, 0, 1, struct.pack(">I", 1)))
    (link,) = server.links
    assert (link.calls, link.held_bytes) == ({}, 0)
    writer.close()


def _integer(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number % 128 + 128)
        number //= 128
    return bytes((*found, number))


async def test_empty_frames_without_end_are_cut(server: GrpcServer) -> None:
    await is_closed(server, raw_frame(HEADERS, END_HEADERS, 1, BLOCK) + raw_frame(DATA, 0, 1, b"") * 100_000)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", bytes(100)])
async def test_another_protocol_is_closed_at_once(server: GrpcServer, data: bytes) -> None:
    await is_closed(server, data, has_preface=False)


async def test_a_link_that_says_nothing_is_closed(server: GrpcServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert await reader.read() == b""
    writer.close()


async def test_half_a_request_is_not_waited_for_without_end(server: GrpcServer) -> None:
    await is_closed(server, raw_frame(HEADERS, END_HEADERS, 1, BLOCK) + raw_frame(DATA, 0, 1, b"\0\0\0\1\0half"))


async def test_answers_that_nobody_reads_end_their_link(server: GrpcServer) -> None:
    async with await Peer.connect(server.port, window=0) as peer:
        for _ in range(20):
            peer.ask("/t/Echo", bytes(60_000))
        await peer.closed()
        assert server.links == {}


async def test_more_streams_than_allowed_are_refused_and_the_others_served(server: GrpcServer) -> None:
    async with await Peer.connect(server.port) as peer:
        data = bytearray(peer.h2.data_to_send())
        for number in range(LIMITS.streams + 10):
            data += raw_frame(HEADERS, END_HEADERS, 2 * number + 1, BLOCK.replace(b"/t/Echo", b"/t/Hold"))
        peer.writer.write(data)
        await peer.writer.drain()
        while not server.links or len(next(iter(server.links)).calls) < LIMITS.streams:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert len(next(iter(server.links)).calls) == LIMITS.streams
