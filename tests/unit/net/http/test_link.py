"""One HTTP connection: whole answers, streams, limits, wrong bytes."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.net.http.link import HttpAnswer, HttpLink

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True


def connected(**limits: int) -> tuple[HttpLink, Wire]:
    link, wire = HttpLink("a:2379", **limits), Wire()
    link.connection_made(wire)
    return link, wire


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


async def test_exchanges_follow_each_other_on_one_connection() -> None:
    link, wire = connected()
    for number in range(3):
        asked = link.ask("/v3/kv/range", b'{"key":"%d"}' % number, {"Authorization": "t"})
        assert not link.is_usable
        for byte in OK:
            link.data_received(bytes((byte,)))
        assert await asked == HttpAnswer(200, b"{}")
        assert link.is_usable
    assert wire.written.count(b"POST /v3/kv/range HTTP/1.1\r\nHost: a:2379\r\n") == 3
    assert wire.written.endswith(b'Authorization: t\r\n\r\n{"key":"2"}')


async def test_without_a_body_it_is_a_get() -> None:
    link, wire = connected()
    asked = link.ask("/version", None, {})
    assert wire.written == b"GET /version HTTP/1.1\r\nHost: a:2379\r\n\r\n"
    link.data_received(OK)
    assert (await asked).body == b"{}"
    assert link.is_usable


async def test_a_connection_that_the_server_ends_after_its_answer_is_not_used_again() -> None:
    link, wire = connected()
    asked = link.ask("/", b"{}", {})
    link.data_received(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert (await asked).body == b"{}"
    assert (link.is_usable, wire.is_aborted) == (False, True)
    with pytest.raises(LinkError, match="the connection is closed"):
        link.ask("/", b"{}", {})


@pytest.mark.parametrize("received", [b"", OK[:-1], STREAM + chunk(b"{")])
async def test_a_connection_that_breaks_fails_the_exchange(received: bytes) -> None:
    link, _ = connected()
    asked = link.ask("/", b"{}", {})
    link.data_received(received) if received else None
    link.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(LinkError, match="the connection broke: reset"):
        await asked
    assert not link.is_usable


@pytest.mark.parametrize(
    "received",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        STREAM + b"zz\r\n",
    ],
)
async def test_wrong_bytes_end_the_link(received: bytes) -> None:
    link, wire = connected()
    asked = link.ask("/", b"{}", {})
    link.data_received(received)
    with pytest.raises(ProtocolError, match="the server's HTTP is wrong"):
        await asked
    assert wire.is_aborted
    link.data_received(OK)  # what was on its way
    assert not link.is_usable


async def test_a_stream_is_told_line_by_line() -> None:
    link, _ = connected()
    lines: list[bytes] = []
    asked = link.ask("/v3/watch", b"{}", {}, lines.append)
    link.data_received(STREAM + chunk(b'{"a":1}\n{"b"'))
    link.data_received(chunk(b":2}\n\n"))
    assert lines == [b'{"a":1}', b'{"b":2}']
    link.data_received(chunk(b"{}\n") + b"0\r\n\r\n")
    assert (await asked).body == b""
    assert lines[-1] == b"{}"


async def test_a_refused_stream_is_an_answer() -> None:
    link, _ = connected()
    lines: list[bytes] = []
    asked = link.ask("/v3/watch", b"{}", {}, lines.append)
    link.data_received(OK.replace(b"200 OK", b"403 Forbidden"))
    assert (await asked, lines) == (HttpAnswer(403, b"{}"), [])


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_or_line_that_is_too_long_ends_the_link(stream: bool) -> None:
    link, wire = connected(body_bytes_max=100)
    asked = link.ask("/", b"{}", {}, (lambda line: None) if stream else None)
    link.data_received(STREAM + chunk(b"x" * 60) + chunk(b"x" * 60))
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        await asked
    assert wire.is_aborted


async def test_a_stream_may_be_longer_than_its_longest_line() -> None:
    link, _ = connected(body_bytes_max=100)
    lines: list[bytes] = []
    link.ask("/", b"{}", {}, lines.append)
    link.data_received(STREAM)
    for _ in range(50):
        link.data_received(chunk(b"x" * 90 + b"\n"))
    assert len(lines) == 50


async def test_a_stream_may_be_closed_by_one_of_its_lines() -> None:
    link, wire = connected()
    asked = link.ask("/", b"{}", {}, lambda line: link.close())
    link.data_received(STREAM + chunk(b"{}\n{}\n") + chunk(b"{}\n"))
    with pytest.raises(LinkError, match="closed here"):
        await asked
    assert wire.is_aborted
