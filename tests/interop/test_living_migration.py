"""A broker name goes from Apache's broker to ours while clients go on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, free_ports
from rocketlake import Message, Producer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.usefixtures("apache_jars")]

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


def log_of(store: Path) -> bytes:
    """All bytes of a log, without the zeros behind it."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


async def test_a_broker_follows_apaches_master_from_its_first_message_on(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    apache = ApacheCluster(
        tmp_path / "apache",
        settings={"mappedFileSizeCommitLog": FILE_BYTES, "brokerName": NAME, "timerWheelEnable": "true"},
    )
    await asyncio.to_thread(apache.start)
    try:
        async with Producer("before", namesrv=apache.namesrv) as producer:
            for number in range(400):
                await producer.send(Message("Moved", b"%d" % number + bytes(500)))
            ours = tmp_path / "ours"
            follow = Command(tmp_path / "follow.log", "follow", apache.broker, "--dir", str(ours), "--port", str(port))
            await follow.until("in step: lacks nothing")
            for number in range(100):
                await producer.send(Message("Moved", b"%d" % number))
            end = log_of(apache.store)
            assert len(end) > 2 * FILE_BYTES  # more than the last file, which is all that Apache's slaves get
            for _tenth in range(200):
                if log_of(ours / "store") == end:
                    break
                await asyncio.sleep(0.1)
            assert log_of(ours / "store") == end
            assert await asyncio.to_thread(follow.stop) == 0
    finally:
        await asyncio.to_thread(apache.kill)
