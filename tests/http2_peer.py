"""A client of the gRPC port for tests: calls by a real HTTP/2 library, and frames made by hand."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field

import ngh2

from rocketlake.proxy.http2.framing import frame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, DATA, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 1, 0, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def raw_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


@dataclass
class Answer:
    """What came of one call."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], bytes(self.data)
        while rest:
            size = int.from_bytes(rest[1:5], "big")
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    @property
    def status(self) -> int:
        return int(self.headers[b"grpc-status"])

    @property
    def text(self) -> str:
        return self.headers.get(b"grpc-message", b"").decode()


class Peer:
    """`async with await Peer.connect(port) as peer`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window: int | None = None) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = ngh2.Connection(ngh2.Role.CLIENT)
        self.h2.initiate_connection({} if window is None else {ngh2.Setting.INITIAL_WINDOW_SIZE: window})
        self.answers: dict[int, Answer] = {}
        self.went_away: list[int] = []
        self.pings = 0

    @classmethod
    async def connect(cls, port: int, window: int | None = None, tls: ssl.SSLContext | None = None) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls), window)

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def begin(self, path: str, *extra: tuple[bytes, bytes], ended: bool = False) -> int:
        head = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"test"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *extra,
        ]
        stream = self.h2.send_request(head, end_stream=ended)
        self.answers[stream] = Answer()
        return stream

    def send(self, stream: int, message: bytes, *, ended: bool = False) -> None:
        self.h2.send_data(stream, frame(message), end_stream=ended)

    def ask(self, path: str, message: bytes, *extra: tuple[bytes, bytes]) -> int:
        stream = self.begin(path, *extra)
        self.send(stream, message, ended=True)
        return stream

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def read(self) -> bool:
        """Take what comes next; False at the end of the connection."""
        await self.flush()
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            return False
        if not data:
            return False
        try:
            self.h2.receive_data(data)
        except ngh2.ConnectionStateError:  # behind GOAWAY
            return True
        for event in self.h2.events():
            stream = self.answers.get(getattr(event, "stream_id", 0), Answer())
            if isinstance(event, ngh2.ResponseReceived | ngh2.TrailersReceived):
                stream.headers |= dict(event.headers)
            elif isinstance(event, ngh2.DataReceived):
                stream.data += event.data
            elif isinstance(event, ngh2.StreamReset):
                stream.reset = event.error_code
            elif isinstance(event, ngh2.StreamClosed):
                stream.is_over = True
            elif isinstance(event, ngh2.GoAwayReceived):
                self.went_away.append(event.last_stream_id)
            elif isinstance(event, ngh2.PingReceived):
                self.pings += 1
        return True

    async def over(self, stream: int) -> Answer:
        """The answer of a call, whole."""
        while not self.answers[stream].is_over:
            assert await self.read(), "the connection ended before the call"
        return self.answers[stream]

    async def closed(self) -> None:
        """Wait until the server has closed the connection."""
        while await self.read():
            pass
