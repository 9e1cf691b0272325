"""Owns recording the classic HA stream between two of Apache's brokers, into tests/golden/classic/.

Run by hand: `.venv/bin/python -m interop.record_classic`. For each release a slave joins a master that has messages,
follows it over the end of a log file, hears heartbeats, is killed and comes back. Each connection is kept for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from pathlib import Path

from interop.apache import ApacheCluster, free_ports, run_driver, wait_for_port
from interop.apache_group import until
from interop.record_golden import GOLDEN, Tap

FOLDER = GOLDEN / "classic"
RELEASES = {"5.3.3": "server", "5.5.0": "server550"}
SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
    "haSendHeartbeatInterval": 500,
    "brokerName": "pair",
    "brokerIP2": "127.0.0.1",
}


class Connections(Tap):
    """A tap that keeps each connection for itself."""

    def __init__(self, port: int, target: int) -> None:
        super().__init__(port, target)
        self.streams: list[tuple[bytearray, bytearray]] = []

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        said, heard = bytearray(), bytearray()
        self.streams.append((said, heard))
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, up_writer, said), self._pump(up_reader, writer, heard))


def log_of(cluster: ApacheCluster) -> bytes:
    """All bytes of a log, without the zeros behind it."""
    files = sorted((cluster.store / "commitlog").glob("0*"))
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


async def record(root: Path, release: str) -> None:
    """Record a pair of this release."""
    peer = RELEASES[release]
    master = ApacheCluster(root / "master", settings=SETTINGS, peer=peer)
    ha_port, namesrv_port = free_ports(2)
    stream = Connections(ha_port, int(str(master.settings["haListenPort"])))
    told = (f"127.0.0.1:{stream.target}".encode(), f"127.0.0.1:{ha_port}".encode())
    namesrv = Tap(namesrv_port, master.namesrv_port, told)  # a slave hears of its master from a name server only
    named: dict[str, object] = {"namesrvAddr": f"127.0.0.1:{namesrv_port}", "brokerRole": "SLAVE", "brokerId": 1}
    slave = ApacheCluster(root / "slave", settings=SETTINGS | named, peer=peer)
    slave.root.mkdir(parents=True)

    def is_same() -> bool:
        return bool(log_of(slave)) and log_of(master).endswith(log_of(slave))  # an empty slave gets the last file

    async def caught_up(count: int) -> None:
        await asyncio.to_thread(run_driver, "Produce", master.namesrv, "Pair", "sync", count, 120, "A", peer=peer)
        await asyncio.to_thread(until, is_same, "the slave does not catch up")

    try:
        await asyncio.to_thread(master.start)
        for tap in (stream, namesrv):
            await tap.serve()
        await asyncio.to_thread(run_driver, "Produce", master.namesrv, "Pair", "sync", 20, 120, "A", peer=peer)
        slave.launch_broker()
        await asyncio.to_thread(wait_for_port, slave.broker_port, slave._processes[0])
        await asyncio.to_thread(until, is_same, "the slave does not join")
        await caught_up(60)
        await asyncio.sleep(2)
        slave.kill()
        await asyncio.to_thread(run_driver, "Produce", master.namesrv, "Pair", "sync", 5, 120, "A", peer=peer)
        slave.launch_broker()
        await caught_up(5)
        await asyncio.sleep(2)
        save(release, stream, log_of(master))
    finally:
        slave.kill()
        master.kill()


def save(release: str, stream: Connections, log: bytes) -> None:
    """Write the connections that said something, and how long the log was."""
    folder = FOLDER / release
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spoken = [(said, heard) for said, heard in stream.streams if heard]
    for number, (said, heard) in enumerate(spoken, start=1):
        (folder / f"{number}_slave.bin").write_bytes(said)
        (folder / f"{number}_master.bin").write_bytes(heard)
    about = {"apache": release, "connections": len(spoken), "log_end": len(log)}
    (folder / "about.json").write_text(json.dumps(about | {"file_bytes": SETTINGS["mappedFileSizeCommitLog"]}) + "\n")
    print({path.name: path.stat().st_size for path in sorted(folder.iterdir())})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for release in RELEASES:
            asyncio.run(record(Path(folder) / release, release))


if __name__ == "__main__":
    main()
