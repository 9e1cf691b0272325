"""Owns recording the HA stream of Apache's brokers in controller mode, and their epoch file, into tests/golden/.

Run by hand: `.venv/bin/python -m interop.record_auto_switch`. A broker leads epoch 1 and a second one joins it; the
first is killed, the second leads the next epoch, and the first comes back with records that nobody else has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

from interop.apache import free_ports, run_driver
from interop.apache_group import ApacheBroker, ApacheGroup, until
from interop.record_golden import GOLDEN, Tap

FOLDER = GOLDEN / "auto_switch"


class Valve(Tap):
    """A tap that can be shut: what comes then is kept and not passed on."""

    def __init__(self, port: int, target: int) -> None:
        super().__init__(port, target)
        self.is_shut = False

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while data := await source.read(65536):
                kept += data
                if not self.is_shut:
                    sink.write(data)
            sink.close()


class HaTap:
    """Both directions of the HA stream to one broker; slaves find it in place of the broker's own HA port."""

    def __init__(self, group: ApacheGroup, master: ApacheBroker) -> None:
        namesrv_port, ha_port = free_ports(2)
        self.stream = Valve(ha_port, master.ha_port)
        swap = (f"127.0.0.1:{master.ha_port}".encode(), f"127.0.0.1:{ha_port}".encode())
        self._namesrv = Tap(namesrv_port, group.namesrv_port, swap)
        self.namesrv = f"127.0.0.1:{namesrv_port}"

    async def serve(self) -> None:
        self.servers = [await tap.serve() for tap in (self.stream, self._namesrv)]

    async def save(self, name: str) -> None:
        for server in self.servers:
            server.close()
        await asyncio.sleep(1)
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}_slave.bin").write_bytes(self.stream.requests)
        (FOLDER / f"{name}_master.bin").write_bytes(self.stream.responses)


def produce(group: ApacheGroup, count: int) -> None:
    run_driver("Produce", group.namesrv, "Epochs", "sync", count, 50, "A", peer="server550")


def log_of(broker: ApacheBroker) -> bytes:
    files = sorted((broker.store / "commitlog").glob("0*"))
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


async def record(root: Path) -> dict[str, object]:
    group = ApacheGroup(root)
    try:
        await asyncio.to_thread(group.start)
        settings: dict[str, object] = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 6000}
        settings |= {"allAckInSyncStateSet": "true", "slaveTimeout": 500}
        first = group.broker(**settings)
        await asyncio.to_thread(first.start)
        await asyncio.to_thread(until, lambda: first.epochs, "no epoch of the first master")
        await asyncio.to_thread(produce, group, 20)
        joining = HaTap(group, first)
        await joining.serve()
        second = group.broker(namesrv=joining.namesrv, **settings)
        await asyncio.to_thread(second.start)
        await asyncio.to_thread(until, lambda: log_of(first) == log_of(second), "the slave does not catch up")
        await asyncio.to_thread(produce, group, 10)
        await asyncio.to_thread(until, lambda: log_of(first) == log_of(second), "the slave does not follow")
        await asyncio.sleep(2)
        joining.stream.is_shut = True
        with contextlib.suppress(RuntimeError):  # its sends are not acknowledged
            await asyncio.to_thread(produce, group, 3)
        alone = len(log_of(first))
        first.kill()
        await joining.save("join")
        await asyncio.to_thread(until, lambda: "\n2-" in second.epochs, "the second broker does not become the master")
        await asyncio.sleep(2)
        await asyncio.to_thread(produce, group, 5)
        returning = HaTap(group, second)
        await returning.serve()
        first.settings["namesrvAddr"] = returning.namesrv
        await asyncio.to_thread(first.start)
        await asyncio.to_thread(until, lambda: log_of(first) == log_of(second), "the first broker does not follow")
        await asyncio.to_thread(produce, group, 5)
        await asyncio.to_thread(until, lambda: log_of(first) == log_of(second), "the first broker does not follow")
        await asyncio.sleep(2)
        (FOLDER / "epochFileCheckpoint").write_text(second.epochs)
        (FOLDER / "slave_epochFileCheckpoint").write_text(first.epochs)
        end = len(log_of(second))
        first.kill()
        await returning.save("return")
        return {"apache": "5.5.0", "log_end": end, "first_alone_end": alone}
    finally:
        group.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        about = asyncio.run(record(Path(folder)))
    (FOLDER / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    print({path.name: path.stat().st_size for path in sorted(FOLDER.iterdir())})


if __name__ == "__main__":
    main()
