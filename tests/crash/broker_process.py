"""Owns a real broker process and a load on it whose answers are remembered, so that a crash can be judged later."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from zlib import crc32

from interop.apache import free_ports, wait_for_port, wait_for_registration
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.codec.record import iter_records
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PullHeader, PullReplyHeader
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.requests import send_header

TOPIC = "BenchmarkTest"
QUEUES = 4
Place = tuple[int, int]  # queue id, queue offset


class BrokerProcess:
    """`rocketlake run broker -c ...` in a folder, on a port that stays the same over restarts."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self.store = Path(str(settings.get("storePathRootDir", root / "store")))
        self.prefix: list[str] = []
        self._namesrv = str(settings.get("namesrvAddr", ""))
        self._is_member = "controllerAddr" in settings
        self._conf = root / "broker.conf"
        values = {
            "listenPort": self.port,
            "haListenPort": -1,
            "storePathRootDir": root / "store",
            "mappedFileSizeCommitLog": 4 << 20,
            "mappedFileSizeConsumeQueue": 20_000,
            "maxHashSlotNum": 1000,
            "maxIndexNum": 4000,
            **settings,
        }
        root.mkdir(parents=True, exist_ok=True)
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def start(self) -> None:
        """Return when it listens, and its name server knows it; a member of a group registers when it has a role."""
        with (self.root / "broker.log").open("ab") as log:
            command = [*self.prefix, sys.executable, "-m", "rocketlake", "run", "broker", "-c", str(self._conf)]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_for_port(self.port, self._process)
            if self._namesrv and not self._is_member:
                host, _, port = self._namesrv.partition(":")
                wait_for_registration(lambda: socket.create_connection((host, int(port)), timeout=5), self.port)
        except RuntimeError as error:
            self.kill()
            raise RuntimeError(f"{error}\n{(self.root / 'broker.log').read_text()[-3000:]}") from None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Started, and stopped in order at the end of the block."""
        self.start()
        try:
            yield
        finally:
            assert self.stop() == 0

    def kill(self) -> None:
        """SIGKILL to the broker, and to the tracer it may run under."""
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop in order; the exit code."""
        self._process.terminate()
        return self._process.wait(60)


def member(root: Path, name: str, namesrv: str, controller: str, **settings: object) -> BrokerProcess:
    """A broker of the group `name` under a controller."""
    return BrokerProcess(
        root,
        brokerName=name,
        namesrvAddr=namesrv,
        enableControllerMode="true",
        controllerAddr=controller,
        haListenPort=free_ports(1)[0],
        fastListenPort=0,
        **settings,
    )


@dataclass
class Ledger:
    """What was tried and what was acknowledged: message id -> place."""

    tried: set[str] = field(default_factory=set)
    acked: dict[str, Place] = field(default_factory=dict)
    acked_physical: dict[str, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


class Load:
    """Senders that write numbered messages until the broker is gone."""

    def __init__(self, address: str, ledger: Ledger, *, wait_stored: bool = True) -> None:
        self.address, self.ledger = address, ledger
        self._properties = "" if wait_stored else "WAIT\x01false\x02"

    async def run(self, senders: int, name: str) -> None:
        """Until every sender met a dead link or a refusal."""
        net = NetClient(clock=SystemClock())
        try:
            await asyncio.gather(*(self._send_until_dead(net, f"{name}-{number}", number) for number in range(senders)))
        finally:
            await net.close()

    async def _send_until_dead(self, net: NetClient, name: str, sender: int) -> None:
        for number in range(1_000_000):
            identity = f"{name}-{number}"
            self.ledger.tried.add(identity)
            try:
                answer = await net.invoke(self.address, self._command(identity, sender), 8000)
            except RocketLakeError:
                return
            if answer.code != ResponseCode.SUCCESS:
                self.ledger.refused[answer.code] = answer.remark or ""
                return
            reply = answer.header(SendReplyHeader)
            self.ledger.acked[identity] = (reply.queue_id, reply.queue_offset)
            self.ledger.acked_physical[identity] = int(reply.msg_id[16:32], 16)

    def _command(self, identity: str, sender: int) -> Command:
        header = send_header(
            topic=TOPIC,
            queue_id=sender % QUEUES,
            born_timestamp=int(time() * 1000),
            properties=f"KEYS\x01{identity}\x02{self._properties}",
        )
        # Bodies of many sizes, so that records end anywhere in a page and files roll at odd places.
        body = identity.encode().ljust(40 + (crc32(identity.encode()) & 1023), b".")
        return Command.request(RequestCode.SEND_MESSAGE_V2, header, body)


class Reader:
    """Reads every queue from where it stopped last, and judges what it finds against the ledger."""

    def __init__(self, address: str, ledger: Ledger) -> None:
        self.address, self.ledger = address, ledger
        self.queues = list(range(QUEUES))
        self.found: dict[str, Place] = {}
        self._next: dict[int, int] = defaultdict(int)

    async def read_new(self) -> None:
        net = NetClient(clock=SystemClock())
        try:
            for queue_id in self.queues:
                while await self._pull(net, queue_id):
                    pass
        finally:
            await net.close()

    async def _pull(self, net: NetClient, queue_id: int) -> bool:
        header = PullHeader(
            consumer_group="crash",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=self._next[queue_id],
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        answer = await net.invoke(self.address, Command.request(RequestCode.PULL_MESSAGE, header), 8000)
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self._next[queue_id] = answer.header(PullReplyHeader).next_begin_offset
            return True
        if answer.code != ResponseCode.SUCCESS:
            assert answer.code == ResponseCode.PULL_NOT_FOUND, f"pull at {self._next[queue_id]}: {answer.remark}"
            return False
        for message in iter_records(answer.body_bytes):
            assert message.queue_offset == self._next[queue_id], "queue offsets must be dense"
            self._next[queue_id] += 1
            identity = message.body.rstrip(b".").decode()
            assert identity in self.ledger.tried, f"{identity} was never sent"
            assert identity not in self.found, f"{identity} is stored twice"
            self.found[identity] = (queue_id, message.queue_offset)
        return True

    def lost(self) -> list[str]:
        """Acknowledged messages that are not where the acknowledgement said."""
        return [identity for identity, place in self.ledger.acked.items() if self.found.get(identity) != place]


async def kill_under_load(broker: BrokerProcess, ledger: Ledger, seconds: float, name: str, senders: int = 16) -> None:
    """Start the load, let it run, kill -9 the broker in the middle of it."""
    load = asyncio.create_task(Load(broker.address, ledger).run(senders, name))
    try:
        # The moment of the kill is the input of this test; there is no condition to await.
        await asyncio.sleep(seconds)
    finally:
        broker.kill()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(load, 20)
