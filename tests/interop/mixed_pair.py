"""Owns a group of two brokers, one ours and one of Apache's: their load, their logs, a master lost with a tail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from zlib import crc32

from interop.apache import free_ports, wait_for_port
from interop.apache_group import CLUSTER, NAME, ApacheBroker
from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import EpochCache
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.crash.broker_process import QUEUES, TOPIC, BrokerProcess, Ledger
from tests.crash.group_processes import settled
from tests.crash.sending import Sending
from tests.requests import send_header

LOG_FILE_BYTES = 4 << 20
"""Brokers of a group have the same: frames of the log end with its files."""
PATIENCE_MS = 60_000
"""No replica leaves the set earlier because it is slow: this machine may be busy."""
_SECONDS = 90
"""Within this time it must come about."""
_TAIL = 16
_TAIL_BODY_BYTES = 1 << 20
"""So many such messages are more than the connection to a slave that does not read holds."""


@contextmanager
def our_controller(root: Path) -> Iterator[str]:
    """The address of our name server with its controller, started by the command that users type."""
    root.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    conf = root / "namesrv.conf"
    conf.write_text(f"listenPort={port}\nenableControllerInNamesrv=true\nkvConfigPath={root}/kvConfig.json\n")
    with (root / "namesrv.log").open("wb") as log:
        command = [sys.executable, "-m", "rocketlake", "run", "namesrv", "-c", str(conf)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(30) == 0, (root / "namesrv.log").read_text()[-3000:]


class Member(Protocol):
    """A broker of either kind."""

    address: str
    store: Path

    def start(self) -> None:
        """Start it on its ports and its store."""

    def kill(self) -> None:
        """kill -9."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class Ours(BrokerProcess):
    """Our broker."""

    def __init__(self, root: Path, namesrv: str, controller: str) -> None:
        super().__init__(
            root,
            brokerName=NAME,
            brokerClusterName=CLUSTER,
            namesrvAddr=namesrv,
            enableControllerMode="true",
            controllerAddr=controller,
            haListenPort=free_ports(1)[0],
            fastListenPort=0,
            mappedFileSizeCommitLog=LOG_FILE_BYTES,
            minInSyncReplicas=1,
            haMaxTimeSlaveNotCatchup=PATIENCE_MS,
        )

    def pause(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)


class Apaches(ApacheBroker):
    """Apache's broker, with the settings by which it loses nothing that it has acknowledged."""

    def __init__(self, root: Path, namesrv: str, controller: str, peer: str) -> None:
        settings: dict[str, object] = {
            "allAckInSyncStateSet": "true",
            "totalReplicas": 2,
            "mappedFileSizeCommitLog": LOG_FILE_BYTES,
            "brokerHeartbeatInterval": 200,
            "controllerHeartBeatTimeoutMills": 3000,
            "haMaxTimeSlaveNotCatchup": PATIENCE_MS,
        }
        super().__init__(root, namesrv, controller, settings, peer)
        self.address = f"127.0.0.1:{self.port}"

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def log_of(member: Member, end: int) -> bytes:
    """The bytes of its log up to there. Behind its end Apache's broker leaves the bytes of what it has cut."""
    files = sorted(path for path in (member.store / "commitlog").iterdir() if path.name.isdigit())
    assert [int(path.name) for path in files] == [LOG_FILE_BYTES * number for number in range(len(files))]
    return b"".join(path.read_bytes() for path in files)[:end]


class MixedPair:
    """Two brokers of one group under load."""

    def __init__(self, controller: str, ours: Ours, apaches: Apaches) -> None:
        self.ours, self.apaches = ours, apaches
        self.ledger = Ledger()
        self.net = NetClient(clock=SystemClock())
        self.sending = Sending([ours.address, apaches.address], self.ledger)
        self._controller = controller

    async def in_step(self, count: int = 2) -> str:
        """The address of the master as soon as so many are in step."""
        return await settled(self.net, self._controller, NAME, count, _SECONDS)

    async def end_of(self, member: Member) -> int:
        """Where its log ends."""
        answer = await self.net.invoke(member.address, Command.request(RequestCode.GET_BROKER_EPOCH_CACHE), 5000)
        return EpochCache.decode(answer.body_bytes).max_offset

    async def equal_log(self) -> bytes:
        """The log of both, as soon as it is one."""
        deadline = time.monotonic() + _SECONDS
        while (end := await self.end_of(self.ours)) != await self.end_of(self.apaches):
            assert time.monotonic() < deadline, "one log is longer than the other"
            await asyncio.sleep(0.1)
        logs = [log_of(member, end) for member in (self.ours, self.apaches)]
        assert logs[0] == logs[1], "the logs differ"
        return logs[0]

    async def lose(self, master: Member, other: Member) -> bytes:
        """Kill the master, with messages that the other one does not have; the log of the dead master.

        Returns when the other one is the master and takes messages.
        """
        had = await self.end_of(master)
        other.pause()
        sends = [asyncio.create_task(self._send_large(master.address, number)) for number in range(_TAIL)]
        try:
            async with asyncio.timeout(_SECONDS):
                while (end := await self.end_of(master)) < had + _TAIL * _TAIL_BODY_BYTES:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            master.kill()
            other.resume()
        await asyncio.gather(*sends, return_exceptions=True)
        assert await self.in_step(1) == other.address
        await asyncio.wait_for(self.sending.goes_on(100), _SECONDS)
        return log_of(master, end)

    async def _send_large(self, address: str, number: int) -> None:
        """Its answer is awaited no longer than the master lives: nobody acknowledges it."""
        identity = f"tail-{address}-{number}"
        self.ledger.tried.add(identity)
        header = send_header(
            topic=TOPIC,
            queue_id=crc32(identity.encode()) % QUEUES,
            born_timestamp=int(time.time() * 1000),
            properties=f"KEYS\x01{identity}\x02",
        )
        body = identity.encode().ljust(_TAIL_BODY_BYTES, b".")
        answer = await self.net.invoke(address, Command.request(RequestCode.SEND_MESSAGE_V2, header, body), 20_000)
        assert answer.code != 0, f"{identity} was acknowledged, and no replica has it"

    async def close(self) -> None:
        """Kill both."""
        for broker in (self.ours, self.apaches):
            with contextlib.suppress(ProcessLookupError):  # a test that failed may have killed it before
                broker.kill()
        await self.net.close()
