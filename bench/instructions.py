"""`python -m bench.instructions`: machine instructions of the broker's send path per message, counted by callgrind.

Owns        a broker in this process, fed whole chunks of frames over a memory transport, its store on real files.
Must not know   other brokers, wall time: an instruction count holds on a noisy machine.

The work of starting Python and the broker falls out: a short and a long run are counted, and the difference is divided
by the messages between them. Needs valgrind; says so and ends well when there is none.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.net.memory_net import MemoryNet
from rocketlake.store.config import StoreConfig

ADDRESS = ("10.0.0.2", 10911)
FEW, MANY = 1024, 6144
CHUNKS = (1, 64)
"""Messages that arrive together: one alone, or as many as 64 threads have outstanding."""
PATIENCE_MS = 600_000
"""Under valgrind all takes fifty times as long; no send may be refused for having waited."""


class Sender(asyncio.Protocol):
    """Writes a chunk of `count` frames when the answers to the one before are there."""

    def __init__(self, frames: bytes, count: int, messages: int) -> None:
        self._frames, self._count = memoryview(frames), count
        self._frame_bytes = len(frames) // messages
        self._expected = 0
        self._rest = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        if not self._frames:
            self.done.set_result(None)
            return
        size = self._count * self._frame_bytes
        chunk, self._frames = self._frames[:size], self._frames[size:]
        self._expected += self._count
        self._transport.write(bytes(chunk))

    def data_received(self, data: bytes) -> None:
        data, at = self._rest + data, 0
        while at + 10 <= len(data) and at + (size := 4 + int.from_bytes(data[at : at + 4], "big")) <= len(data):
            if data[at + 4] != 1 or data[at + 8 : at + 10] != b"\0\0":
                raise RuntimeError(f"not a success in the binary codec: {data[at : at + size]!r}")
            self._expected -= 1
            at += size
        self._rest = data[at:]
        if self._expected == 0:
            self._send()


async def serve(folder: Path, count: int, messages: int) -> None:
    """One broker, so many messages over one connection, `count` a chunk."""
    net = MemoryNet()
    config = BrokerConfig(
        listen_host=ADDRESS[0],
        listen_port=ADDRESS[1],
        fast_listen_port=0,
        store_root=folder / "store",
        send_age_max_ms=PATIENCE_MS,
    )
    broker = Broker(config, StoreConfig(), network=net.host(ADDRESS[0]))
    await broker.start()
    frames = (folder / "frames").read_bytes()
    sender = await net.host("10.0.0.1").connect(lambda: Sender(frames, count, messages), *ADDRESS)
    assert isinstance(sender, Sender)
    await sender.done
    await broker.stop()


def counted(count: int, messages: int) -> int:
    """Instructions of a whole process that serves so many messages of 1 KiB, over 900 queues."""
    # Made here: numpy's import would be most of what is counted there.
    from bench.generator import Template

    template = Template("BenchmarkTest", range(100, 1000), 1024)
    with tempfile.TemporaryDirectory(prefix="rocketlake-callgrind-") as folder:
        frames = b"".join(bytes(template.frames(first, 64)) for first in range(0, messages, 64))
        (Path(folder) / "frames").write_bytes(frames)
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable]
        command += ["-m", "bench.instructions", "--one", str(count), str(messages), folder]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"valgrind ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(found.group(1))


def measure() -> dict[int, int]:
    """Instructions per message, by messages a chunk."""
    found = {}
    for count in CHUNKS:
        found[count] = (counted(count, MANY) - counted(count, FEW)) // (MANY - FEW)
        print(f"{count:3} messages of 1 KiB a chunk: {found[count]:8,} instructions a message", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions")
    parser.add_argument("--one", nargs=3, metavar=("COUNT", "MESSAGES", "FOLDER"), help="one run in this process")
    options = parser.parse_args()
    if options.one:
        count, messages, folder = options.one
        asyncio.run(serve(Path(folder), int(count), int(messages)))
    elif shutil.which("valgrind"):
        measure()
    else:
        print("skipped: valgrind is not installed (Debian: apt-get install valgrind)")


if __name__ == "__main__":
    main()
