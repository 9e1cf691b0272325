"""`python -m bench.slow_disk`: does a broker keep its pace while its disk is slow? A normal and a slow disk by turns.

Each round is one broker process. A client of this process sends messages and pulls the newest ones at a steady rate;
each latency counts from the moment the request was due. Beside that the broker rolls log, queue and index files, makes
and deletes topics, and answers queries for old messages that the kernel has dropped from memory.

On the slow disk every call of the disk seam (rocketlake/base/disk/seam.py) sleeps first, on the thread that makes it:
open, make, sync, sync of a folder, rename, remove, truncate, the reads that may wait, and all questions about files.
Not slowed, and honestly so: `pwrite`, which writes into the page cache; `pread_now`, `is_resident` and views, which see
only what is in memory (a look at a page that the kernel dropped in between costs what the real disk costs); `close`.
So this shows who waits for the disk, not how a slow device behaves under write-back.

ASYNC_FLUSH only. With SYNC_FLUSH an answer waits for the disk: that is what it promises.

Prints p50, p99 and the longest of both disks and the ratio of their p99; writes bench/results/<date>-slow-disk.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.__main__ import machine, result_path
from interop.apache import free_ports, wait_for_port
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.watched import WatchedFiles
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader, DeleteTopicHeader
from rocketlake.protocol.headers.offset import SearchOffsetHeader
from rocketlake.protocol.headers.pull import PULL_SUBSCRIPTION, PullHeader
from rocketlake.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.config import StoreConfig

HERE = Path(__file__).resolve().parent.parent
TOPIC = "hot"
QUEUES = 4
BODY = b"x" * 1024
FAR_MS = 2**42
RATIO_MAX = 2.0

# Small files, so that each kind rolls several times a minute.
STORE = StoreConfig(
    commit_log_file_bytes=8 * 1024 * 1024,
    consume_queue_file_bytes=20 * 2_000,
    index_slots=5_000,
    index_entries=10_000,
    queue_flush_thorough_interval_ms=5_000,
    clean_interval_ms=2_000,
    file_reserved_hours=0,
    delete_when=";".join(f"{hour:02}" for hour in range(24)),
)


def serve(folder: Path, port: int, sleep_ms: int) -> None:
    """The broker process: serves until it is killed."""

    def told(call: str, _path: Path) -> None:
        if sleep_ms and call != "pwrite":
            time.sleep(sleep_ms / 1000)

    async def run() -> None:
        config = BrokerConfig(
            broker_name="slow", listen_host="127.0.0.1", listen_port=port, ha_listen_port=-1, store_root=folder
        )
        await Broker(config, STORE, files=WatchedFiles(PosixFiles(), told)).start()
        await asyncio.Event().wait()

    asyncio.run(run())


class Client:
    """The steady load, and what goes on beside it."""

    def __init__(self, address: str, folder: Path, rate: int) -> None:
        self.address = address
        self.folder = folder
        self.rate = rate
        self.net = NetClient()
        self.latencies: dict[str, list[float]] = {"send": [], "pull": []}
        self.beside: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self._is_measuring = False
        self._sent = 0
        self._ends = [0] * QUEUES
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, code: int, header: Header, body: bytes | None = None) -> Command:
        return await self.net.invoke(self.address, Command.request(code, header, body), 60_000)

    async def play(self, warm: float, seconds: float) -> None:
        """Warm up, then measure."""
        await self.create(TOPIC)
        beside = [asyncio.create_task(each) for each in (self._cold(), self._topics())]
        began = time.monotonic()
        number = 0
        while (due := began + number / self.rate) < began + warm + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._is_measuring = due >= began + warm
            self._start(self._timed("send", due, self._send(number)))
            if number % 2:
                self._start(self._timed("pull", due, self._pull(number // 2 % QUEUES)))
            number += 1
        await asyncio.gather(*self._tasks)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await self.net.close()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _timed(self, kind: str, due: float, request: Any) -> None:
        measures = self._is_measuring
        answer = await request
        if measures:
            self.latencies[kind].append(time.monotonic() - due)
            if answer.code != 0:
                self.failed[f"{kind} {answer.code}"] = self.failed.get(f"{kind} {answer.code}", 0) + 1

    async def _send(self, number: int, topic: str = TOPIC) -> Command:
        header = SendHeaderV2(
            producer_group="bench",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % QUEUES,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01n{number}\x02",
        )
        answer = await self.ask(Code.SEND_MESSAGE_V2, header, BODY)
        if answer.code == 0 and topic == TOPIC:
            queue_id = int((answer.fields or {})["queueId"])
            self._ends[queue_id] = max(self._ends[queue_id], int((answer.fields or {})["queueOffset"]) + 1)
        return answer

    async def _pull(self, queue_id: int) -> Command:
        header = PullHeader(
            consumer_group="bench",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=max(0, self._ends[queue_id] - 2),
            max_msg_nums=8,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        return await self.ask(Code.PULL_MESSAGE, header)

    # -- beside --------------------------------------------------------------------------------------------------------

    async def create(self, topic: str) -> None:
        header = CreateTopicHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        await self.ask(Code.UPDATE_AND_CREATE_TOPIC, header)

    async def _topics(self) -> None:
        number = 0
        while True:
            name = f"beside{number}"
            await self.create(name)
            await asyncio.gather(*[self._send(each, name) for each in range(2 * QUEUES)])
            await self.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=name))
            self._note("topics made and deleted")
            number += 1
            await asyncio.sleep(0.5)

    async def _cold(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(self._drop_from_memory)
            key = QueryMessageHeader(topic=TOPIC, key=f"n{number}", max_num=8, begin_timestamp=0, end_timestamp=FAR_MS)
            asked: list[tuple[int, Header]] = [
                (Code.QUERY_MESSAGE, key),
                (Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader(topic=TOPIC, queue_id=0, timestamp=1)),
                (Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=0)),
            ]
            await asyncio.gather(*[self.ask(code, header) for code, header in asked])
            self._note("cold queries", len(asked))
            number += 7

    def _drop_from_memory(self) -> None:
        """What is on disk leaves the page cache; what is dirty stays, and so does the newest file of each folder.

        The newest file holds what is hot: a kernel drops the pages that were used longest ago.
        """
        names: dict[Path, list[Path]] = {}
        for part in ("commitlog", "consumequeue", "index"):
            for path in (self.folder / part).rglob("*"):
                names.setdefault(path.parent, []).append(path)
        for path in (path for folder in names.values() for path in sorted(folder)[:-1]):
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)

    def _note(self, what: str, count: int = 1) -> None:
        if self._is_measuring:
            self.beside[what] = self.beside.get(what, 0) + count


@contextlib.contextmanager
def broker(folder: Path, sleep_ms: int) -> Iterator[str]:
    """A broker process; its address."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "bench.slow_disk", "--serve", str(folder), str(port), str(sleep_ms)]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)
    try:
        wait_for_port(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def files_of(folder: Path) -> int:
    """How many files of log, queues and index were begun."""
    logs = [(folder / "commitlog", STORE.commit_log_file_bytes)]
    queues = [(queue, STORE.consume_queue_file_bytes) for queue in (folder / "consumequeue" / TOPIC).iterdir()]
    begun = sum(max((int(path.name) for path in each.iterdir()), default=0) // size for each, size in logs + queues)
    return begun + len(list((folder / "index").iterdir()))


def one_round(root: Path, sleep_ms: int, options: argparse.Namespace) -> dict[str, Any]:
    """One broker on one disk."""
    folder = Path(tempfile.mkdtemp(dir=root))
    with broker(folder, sleep_ms) as address:
        client = Client(address, folder, options.rate)
        asyncio.run(client.play(options.warm, options.seconds))
        rolled = files_of(folder)
    shutil.rmtree(folder)
    figures: dict[str, Any] = {"sleep_ms": sleep_ms, "files_begun": rolled, "failed": client.failed}
    figures["beside"] = client.beside
    for kind, seconds in client.latencies.items():
        cuts = statistics.quantiles(seconds, n=100)
        milliseconds = {"p50": cuts[49], "p99": cuts[98], "max": max(seconds)}
        figures[kind] = {name: round(value * 1000, 2) for name, value in milliseconds.items()} | {"count": len(seconds)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.slow_disk", description=__doc__.split("\n")[0])
    parser.add_argument("--serve", nargs=3, metavar=("FOLDER", "PORT", "MS"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="of each disk")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--rate", type=int, default=500, help="sends a second; half as many pulls")
    parser.add_argument("--sleep-ms", type=int, default=200, help="of each call on the slow disk")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve[0]), int(options.serve[1]), int(options.serve[2]))
        return
    if options.quick:
        options.rounds, options.seconds, options.warm = 1, 15.0, 5.0
    head = machine()
    runs = []
    with tempfile.TemporaryDirectory(prefix="rocketlake-slow-disk-") as name:
        for number in range(options.rounds):
            for sleep_ms in (0, options.sleep_ms):
                print(f"round {number + 1} of {options.rounds}, {sleep_ms} ms a call", flush=True)
                runs.append(one_round(Path(name), sleep_ms, options))
                print(f"  {json.dumps(runs[-1])}", flush=True)
    ratios = {}
    for kind in ("send", "pull"):
        normal, slow = (
            statistics.median(run[kind]["p99"] for run in runs if bool(run["sleep_ms"]) is is_slow)
            for is_slow in (False, True)
        )
        ratios[kind] = round(slow / normal, 2)
        print(f"{kind}: p99 {normal:.2f} ms on the normal disk, {slow:.2f} ms on the slow one: {ratios[kind]:.2f}")
    settings = {"rate": options.rate, "seconds": options.seconds, "warm": options.warm, "rounds": options.rounds}
    result = {"machine": head, "settings": settings, "p99_ratio": ratios, "runs": runs}
    path = result_path("slow-disk")
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {path.relative_to(HERE)}; the aim is a ratio under {RATIO_MAX:g}")


if __name__ == "__main__":
    main()
