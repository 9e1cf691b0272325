"""`python -m bench.micro.grpc_chunk`: CPU of broker and proxy for one chunk of gRPC sends, without sockets.

Owns        a broker with a proxy in this process whose link is handed chunks of a real HTTP/2 client.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies, headers of Apache's Java client, 8 queues, a real store. The client's own work is not counted.
`--profile N`: where the time goes for chunks of N messages.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ngh2
import uvloop

from rocketlake.admin import Admin
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.convert.times import timestamp
from rocketlake.proxy.http2.framing import frame
from rocketlake.proxy.http2.link import GrpcLink
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone

TOPIC, QUEUES = "Chunk", 8
CHUNKS = (1, 4, 16, 64)
MESSAGES = 6_000
HEAD = (
    (b":authority", b"127.0.0.1:8081"),
    (b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"),
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"user-agent", b"grpc-java-netty/1.50.0"),
    (b"x-mq-language", b"JAVA"),
    (b"x-mq-protocol", b"v2"),
    (b"x-mq-client-version", b"5.0.8"),
    (b"x-mq-date-time", b"20261126T120000Z"),
    (b"x-mq-client-id", b"host@1@1@abc"),
    (b"x-mq-namespace", b""),
    (b"grpc-accept-encoding", b"gzip"),
)


class Client(asyncio.Transport):
    """A client, and the transport of the link that serves it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 4711), "sockname": ("127.0.0.1", 8081)})
        self._h2 = ngh2.Connection(ngh2.Role.CLIENT)
        self._h2.initiate_connection({})
        self._sent = 0
        self.answered = 0
        self.link: GrpcLink

    def chunk(self, count: int) -> bytes:
        """So many sends."""
        for _ in range(count):
            self._sent += 1
            number = self._sent
            more = (b"x-mq-request-id", b"req-%032d" % number), (b"grpc-timeout", b"%du" % (2_999_000 + number % 999))
            stream = self._h2.send_request((*HEAD, *more))
            system = v2.SystemProperties(
                tag="A", keys=["k"], message_id=f"01ABCDEF{number:024X}", message_type=1, body_encoding=1,
                born_timestamp=timestamp(1_700_000_000_000 + number), born_host="host-1", queue_id=0,
            )  # fmt: skip
            message = v2.Message(topic=v2.Resource(name=TOPIC), system_properties=system, body=b"x" * 1024)
            sent = v2.SendMessageRequest(messages=[message]).SerializeToString()
            self._h2.send_data(stream, frame(sent), end_stream=True)
        return self._h2.data_to_send()

    def take(self) -> None:
        """Read what the link has written."""
        data = b"".join(self.written)
        self.written.clear()
        self._h2.receive_data(data)
        for event in self._h2.events():
            if isinstance(event, ngh2.DataReceived):
                self.answered += b"\x02OK" in event.data

    written: list[bytes]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.link.connection_lost, None)

    def is_closing(self) -> bool:
        return False


async def measure(count: int, *, profiler: cProfile.Profile | None = None) -> float:
    """Microseconds of CPU for a chunk of `count` sends: the least of several stretches."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-micro-") as folder:
        cluster = Standalone(Path(folder), settings={"grpcServerPort": 0})
        async with (
            WithProxy(cluster, lambda: cluster.broker) as served,
            Admin(namesrv=cluster.namesrv_address) as admin,
        ):
            await admin.create_topic(TOPIC, queues=QUEUES)
            assert served.proxy is not None
            server = served.proxy.server
            client = Client()
            client.written = []
            client.link = GrpcLink(server, server._endpoint)
            client.link.connection_made(client)
            await _turns(client, 1, time.perf_counter_ns)
            least = min([await _turns(client, count, time.process_time_ns, profiler) for _ in range(5)])
            if client.answered != client._sent:
                raise RuntimeError(f"{client.answered} of {client._sent} sends were answered")
            client.link.connection_lost(None)
            return least / 1000


async def _turns(
    client: Client, count: int, clock: Callable[[], int], profiler: cProfile.Profile | None = None
) -> float:
    taken = 0
    chunks = max(1, MESSAGES // 5 // count)
    for _ in range(chunks):
        chunk = client.chunk(count)
        expected = client._sent
        if profiler is not None:
            profiler.enable()
        began = clock()
        client.link.data_received(chunk)
        while client.link.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
        taken += clock() - began
        if profiler is not None:
            profiler.disable()
        while client.answered < expected:
            client.take()
            await asyncio.sleep(0)
    return taken / chunks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.grpc_chunk")
    parser.add_argument("--profile", type=int, metavar="N", help="profile chunks of N messages")
    options = parser.parse_args()
    if options.profile:
        profiler = cProfile.Profile()
        uvloop.run(measure(options.profile, profiler=profiler))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        return
    print(f"{'messages a chunk':>16} {'us/chunk':>10} {'us/message':>11}")
    for count in CHUNKS:
        taken = uvloop.run(measure(count))
        print(f"{count:16} {taken:10.1f} {taken / count:11.2f}", flush=True)


if __name__ == "__main__":
    main()
