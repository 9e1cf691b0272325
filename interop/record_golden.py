"""Owns recording the bytes that Apache RocketMQ writes: store files and frames, into tests/golden/.

Run by hand: `.venv/bin/python -m interop.record_golden`. The recordings are committed; tests read them, so a change of
ours that differs from Apache's bytes fails. File sizes are set small so that rolling happens within a few hundred KiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from interop.apache import ApacheCluster, apache_cluster, free_ports, run_driver

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
STORE_SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 1000,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
    "brokerName": "golden",
    "defaultTopicQueueNums": 4,
}
MESSAGES = 600


class Tap:
    """A TCP relay on loopback that keeps both directions, and can rewrite an address in what the server answers."""

    def __init__(self, port: int, target: int, rewrite: tuple[bytes, bytes] = (b"", b"")) -> None:
        self.port, self.target, self.rewrite = port, target, rewrite
        self.requests, self.responses = bytearray(), bytearray()

    async def serve(self) -> asyncio.Server:
        return await asyncio.start_server(self._relay, "127.0.0.1", self.port)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        sent, received = bytearray(), bytearray()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, up_writer, sent), self._pump(up_reader, writer, received))
        self.requests += sent
        self.responses += received

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray) -> None:
        while data := await source.read(65536):
            kept += data
            sink.write(data.replace(*self.rewrite) if self.rewrite[0] else data)
        sink.close()


async def record_frames(cluster: ApacheCluster, codec: str) -> None:
    namesrv_port, broker_port = (port for port in same_width_ports(cluster))
    swap = (str(cluster.broker_port).encode(), str(broker_port).encode())
    taps = {"namesrv": Tap(namesrv_port, cluster.namesrv_port, swap), "broker": Tap(broker_port, cluster.broker_port)}
    servers = [await tap.serve() for tap in taps.values()]
    for driver, arguments in (
        ("Produce", ("Frames", "sync", 12, 100, "A,B")),
        ("Produce", ("Frames", "batch", 60, 20, "A,B")),
        ("Produce", ("Frames", "sync", 3, 6000, "A")),
        ("Consume", ("Frames", f"frames_{codec}", "A", "concurrent", 33, 15, 7)),
        ("Consume", ("Frames", f"frames_orderly_{codec}", "*", "orderly", 60, 15, 0)),
    ):
        with contextlib.suppress(RuntimeError):
            await asyncio.to_thread(run_driver, driver, f"127.0.0.1:{namesrv_port}", *arguments, serialize_type=codec)
    for server in servers:
        server.close()
    await asyncio.sleep(1)
    for name, tap in taps.items():
        folder = GOLDEN / "frames" / codec.lower()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_requests.bin").write_bytes(tap.requests)
        (folder / f"{name}_responses.bin").write_bytes(tap.responses)


def same_width_ports(cluster: ApacheCluster) -> list[int]:
    """Two free ports whose text is as long as the broker's, so that rewriting keeps every length field right."""
    while True:
        ports = free_ports(2)
        if len(str(ports[1])) == len(str(cluster.broker_port)):
            return ports


def record_store(cluster: ApacheCluster, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        cluster.store, target, ignore=shutil.ignore_patterns("lock", "timer*", "rocksdb*", "compaction", "*.bak")
    )
    about = {"settings": {key: str(value) for key, value in cluster.settings.items() if key in STORE_SETTINGS}}
    (target / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="golden-"))
    with apache_cluster(root / "store", settings=STORE_SETTINGS) as cluster:
        print(run_driver("Produce", cluster.namesrv, "Golden", "sync", MESSAGES, 150, "A,B,C"))
        print(run_driver("Produce", cluster.namesrv, "Golden", "batch", 100, 50, "A,B,C"))
        print(run_driver("Produce", cluster.namesrv, "Golden", "sync", 4, 9000, "Big"))
        print(run_driver("Consume", cluster.namesrv, "Golden", "golden_group", "*", "concurrent", MESSAGES, 40, 100))
        cluster.stop()
        record_store(cluster, GOLDEN / "stores" / "apache-5.3.3-clean")
    for codec in ("JSON", "ROCKETMQ"):
        with apache_cluster(root / codec) as cluster:
            asyncio.run(record_frames(cluster, codec))
    shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
