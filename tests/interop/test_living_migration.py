"""A broker name goes from Apache's broker to ours while clients go on.

5.3.3 in the suite; `make living-migration` takes 5.5.0 as well, and goes back: Apache's slave
copies tables once a minute.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, free_ports
from rocketlake import (
    FirstOffset,
    Message,
    Producer,
    PushConsumer,
    RocketLakeError,
    StoredMessage,
)
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

PEERS = releases("server")
IS_LONG = len(PEERS) > 1
FILE_BYTES = 1 << 17
NAME = "moving"


class Command:
    """A command of the terminal that goes on, and what it has said."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        with log.open("ab") as out:
            command = [sys.executable, "-m", "rocketlake", *words]
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ))

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def until(self, words: str, seconds: float = 40) -> None:
        """Until it has said this."""
        end = time.monotonic() + seconds
        while words not in self.said and time.monotonic() < end and self.process.poll() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert words in self.said, self.said

    def stop(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


async def until(condition: Callable[[], bool], what: str, seconds: float = 40) -> None:
    """Wait until this is so."""
    for _twentieth in range(int(seconds * 20)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


def log_of(store: Path) -> bytes:
    """All bytes of a log, without the zeros behind it."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


class Traffic:
    """One producer, a group that reads in order, and what both have seen."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.acked: list[int] = []
        self.read: dict[int, list[int]] = defaultdict(list)
        self.failed: list[str] = []
        self.longest_gap = 0.0

    def listener(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.read[message.queue_id].append(int(message.body))

    async def run(self, stop: asyncio.Event) -> None:
        """Send and read until told to stop, and until all that was acknowledged has been read."""
        consumer = PushConsumer(
            "movers", namesrv=self._namesrv, listener=self.listener, orderly=True, from_where=FirstOffset.FIRST
        )
        consumer.subscribe("Moved")
        async with Producer("before", namesrv=self._namesrv) as producer, consumer:
            await self._send(producer, stop)
            for _tenth in range(300):
                if self.found >= set(self.acked):
                    break
                await asyncio.sleep(0.1)

    async def _send(self, producer: Producer, stop: asyncio.Event) -> None:
        at, number = time.monotonic(), 0
        while not stop.is_set():
            number += 1
            try:
                await producer.send(Message("Moved", b"%d" % number))
            except RocketLakeError as error:
                self.failed.append(str(error))
                continue
            self.acked.append(number)
            self.longest_gap, at = max(self.longest_gap, time.monotonic() - at), time.monotonic()
            await asyncio.sleep(0.001)

    @property
    def found(self) -> set[int]:
        """All numbers that were read."""
        return {number for numbers in self.read.values() for number in numbers}


async def takeover(namesrv: str, *words: str) -> str:
    """What the command says; it must end well."""
    code, said = await ended(namesrv, *words)
    assert code == 0, said
    return said


async def ended(namesrv: str, *words: str) -> tuple[int | None, str]:
    """How the command ended, and what it has said."""
    command = [sys.executable, "-m", "rocketlake", "takeover", NAME, "-n", namesrv, *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def apache_at(root: Path, peer: str) -> ApacheCluster:
    jars_of(peer)
    return ApacheCluster(root, settings={"mappedFileSizeCommitLog": FILE_BYTES, "brokerName": NAME}, peer=peer)


@pytest.mark.parametrize("peer", PEERS)
async def test_a_broker_follows_apaches_master_and_takes_over_under_load(tmp_path: Path, peer: str) -> None:
    (port,) = free_ports(1)
    apache = apache_at(tmp_path / "apache", peer)
    await asyncio.to_thread(apache.start)
    ours, traffic, stop = tmp_path / "ours", Traffic(apache.namesrv), asyncio.Event()
    try:
        async with Producer("before", namesrv=apache.namesrv) as producer:
            for number in range(400):
                await producer.send(Message("Old", b"%d" % number + bytes(500)))
        old_end = len(log_of(apache.store))
        assert old_end > 2 * FILE_BYTES  # more than the last file, which is all that Apache's slaves get
        running = asyncio.create_task(traffic.run(stop))
        follow = Command(tmp_path / "follow.log", "follow", apache.broker, "--dir", str(ours), "--port", str(port))
        await follow.until("in step: lacks")
        await until(lambda: len(traffic.acked) > 200, "traffic before the takeover")
        async with Producer("before", namesrv=apache.namesrv) as producer:
            await producer.send(Message("Moved", b"0", delay_level=2))  # after 5 s: delivered by the new master
        traffic.acked.append(0)
        said = await takeover(apache.namesrv, "--yes")
        assert "nobody took messages for" in said
        before = len(traffic.acked)
        await until(lambda: len(traffic.acked) > before + 200, "traffic behind the takeover")
        stop.set()
        await running
        assert traffic.found >= set(traffic.acked)
        assert traffic.failed == []
        in_order = [[number for number in dict.fromkeys(numbers) if number] for numbers in traffic.read.values()]
        assert in_order == [sorted(numbers) for numbers in in_order]
        again = sum(len(numbers) for numbers in traffic.read.values()) - len(traffic.found)
        assert again < 200, again  # the group went on where it was: nearly nothing came twice
        end = len(log_of(apache.store))
        assert log_of(ours / "store")[:end] == log_of(apache.store)
        assert "already" in await takeover(apache.namesrv, "--yes")
        print(f"{len(traffic.acked)} acknowledged, longest gap {traffic.longest_gap:.2f} s, {again} twice; {said}")
        assert await asyncio.to_thread(follow.stop) == 0
        settings = dict(line.split("=", 1) for line in (apache.root / "broker.conf").read_text().split() if "=" in line)
        assert (settings["brokerRole"], settings["brokerId"]) == ("SLAVE", "2")  # started again it is no second master
    finally:
        await asyncio.to_thread(apache.kill)


@pytest.mark.skipif(not IS_LONG, reason="`make living-migration`: Apache's slave copies tables once a minute")
@pytest.mark.parametrize("peer", PEERS)
async def test_there_and_back_under_load(tmp_path: Path, peer: str) -> None:
    (port,) = free_ports(1)
    apache = apache_at(tmp_path / "apache", peer)
    await asyncio.to_thread(apache.start)
    ours, traffic, stop = tmp_path / "ours", Traffic(apache.namesrv), asyncio.Event()
    follow = Command(tmp_path / "follow.log", "follow", apache.broker, "--dir", str(ours), "--port", str(port))
    try:
        running = asyncio.create_task(traffic.run(stop))
        await follow.until("in step: lacks")
        await takeover(apache.namesrv, "--yes")
        there, traffic.longest_gap = traffic.longest_gap, 0.0
        await asyncio.to_thread(apache.stop_broker)
        await asyncio.to_thread(apache.start_broker_again)  # it follows
        while (await ended(apache.namesrv, "--to", "2", "--dry-run"))[0]:  # noqa: ASYNC110 - it registers in time
            await asyncio.sleep(0.5)
        words = ("takeover", NAME, "--to", "2", "--yes", "--wait", "200", "-n", apache.namesrv)
        back = Command(tmp_path / "back.log", *words)
        await back.until("now start", 200)
        before = len(traffic.acked)
        await asyncio.to_thread(apache.stop_broker)
        await asyncio.to_thread(apache.start_broker_again, brokerRole="ASYNC_MASTER", brokerId=0)
        assert await asyncio.to_thread(back.process.wait, 60) == 0, back.said
        await until(lambda: len(traffic.acked) > before + 200, "traffic behind the way back")
        stop.set()
        await running
        assert traffic.found >= set(traffic.acked)
        in_order = [list(dict.fromkeys(numbers)) for numbers in traffic.read.values()]
        assert in_order == [sorted(numbers) for numbers in in_order]
        again = sum(len(numbers) for numbers in traffic.read.values()) - len(traffic.found)
        assert again < 200, again
        await until(lambda: log_of(ours / "store") == log_of(apache.store), "our broker follows again")
        print(f"{len(traffic.acked)} acknowledged, {again} twice, gaps {there:.2f} and {traffic.longest_gap:.2f} s")
        print(back.said)
    finally:
        follow.process.kill()
        await asyncio.to_thread(follow.process.wait)
        await asyncio.to_thread(apache.kill)
