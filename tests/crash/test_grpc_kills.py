"""`kill -9` of broker, proxy and consumer at each step of a message's way over gRPC: none is lost.

A message comes again only if an answer about it is missing, or came late. The seed draws who is killed at which step.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from interop.apache import free_ports, wait_for_port
from rocketlake.admin import Admin
from rocketlake.base.errors import RocketLakeError
from rocketlake.codec import property_text
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.crash.broker_process import BrokerProcess
from tests.crash.grpc_taker import TOPIC
from tests.requests import send_header
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) * 3 // 5
VICTIMS = ("broker", "proxy", "consumer")
STEPS = ("asking", "got", "renewing", "renewed", "putting", "put", "acking", "acked", "again")
"""What the consumer says when the kill falls: `again` is a message that was revived."""
QUEUES = 4
PAUSE_SECONDS = 0.004
OPEN_MAX = 60
"""No more is sent while so many messages wait: the consumer has work at any time, and the end is soon."""
LIMIT_SECONDS = 90.0
PUT_SECONDS = 5.0
"""A message that was put back for a second is handed out again within so many, on a busy machine."""


class Ledger:
    """What was sent, what the consumers said, and what that allows."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.acked: set[str] = set()
        self.may_be_acked: set[str] = set()
        """No answer to the acknowledgement counts."""
        self.may_come_again: set[str] = set()
        """No answer to some call counts."""
        self.doubles: list[str] = []
        """Came though they were acknowledged in time."""
        self.delivered: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.story: dict[str, list[str]] = defaultdict(list)
        """What was said of each message, with seconds since the start; kills stand under ""."""
        self._began = time.monotonic()
        self._put_back: dict[str, float] = {}
        """When a message was put back for a second: a broker that dies within it may hand it out twice (limits.md)."""
        self._under_way: tuple[str, str] | None = None
        self._is_away = False
        self._said = asyncio.Event()

    def hear(self, line: str) -> None:
        """A line of the consumer."""
        word, _, name = line.partition(" ")
        self.tell(name, word)
        self.steps[word] += 1
        self._said.set()
        if word in ("got", "again"):
            self.delivered[name] += 1
            if name in self.acked - self.may_come_again:
                self.doubles.append(name)
        elif word.endswith("ing") and word != "asking":
            self._under_way = word, name
            self._note_change()
        elif word in ("failed", "late"):
            self.ended()
        elif self._under_way is not None:
            self._under_way = None
            if word == "acked":
                self.acked.add(name)
            elif word == "put":
                self._put_back[name] = time.monotonic()

    def tell(self, name: str, what: str) -> None:
        """Note something for the story of a message, or of all."""
        self.story[name].append(f"{time.monotonic() - self._began:.3f} {what}")

    def broker_falls(self) -> None:
        """A change of the invisible time that is under way may be stored and its answer lost. The proxy asks again, and
        the message may be handed out twice: see docs/internals/limits.md."""
        self._is_away = True
        self._note_change()
        since = time.monotonic() - PUT_SECONDS
        self.may_come_again |= {name for name, put in self._put_back.items() if put > since}

    def broker_is_back(self) -> None:
        """What begins from now on meets no kill."""
        self._is_away = False

    def _note_change(self) -> None:
        if self._is_away and self._under_way is not None and self._under_way[0] in ("renewing", "putting"):
            self.may_come_again.add(self._under_way[1])

    def ended(self) -> None:
        """The consumer is gone, or its connection, or the answer does not count."""
        if self._under_way is not None:
            word, name = self._under_way
            self._under_way = None
            self.may_come_again.add(name)
            if word == "acking":
                self.may_be_acked.add(name)

    async def until_said(self, word: str, count: int) -> None:
        """Until the consumer has said this word so often from now on."""
        wanted = self.steps[word] + count
        while self.steps[word] < wanted:
            self._said.clear()
            await self._said.wait()

    @property
    def open(self) -> set[str]:
        return self.sent - self.acked - self.may_be_acked


class Consumer:
    """The process, started again and again; what it says goes to the ledger."""

    def __init__(self, port: int, ledger: Ledger, seeds: Iterator[int]) -> None:
        self._port, self._ledger, self._seeds = port, ledger, seeds

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.crash.grpc_taker", str(self._port), str(next(self._seeds)),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._hearing = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.startswith(b"asking"):
                self._ledger.ended()  # on a new connection
            self._ledger.hear(line.decode().rstrip())
        self._ledger.ended()

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._hearing


class Server:
    """`rocketlake run WHAT` on a port that it keeps."""

    def __init__(self, log: Path, *words: str) -> None:
        (self.port,) = free_ports(1)
        self._log, self._words = log, words

    def start(self) -> None:
        command = [sys.executable, "-m", "rocketlake", "run", *self._words, "--port", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_for_port(self.port, self._process)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Cluster:
    """Name server, broker, proxy and consumer, each a process."""

    def __init__(self, root: Path, ledger: Ledger, moments: random.Random) -> None:
        self._namesrv = Server(root / "namesrv.log", "namesrv")
        self.namesrv = f"127.0.0.1:{self._namesrv.port}"
        settings = {"flushDiskType": "SYNC_FLUSH", "reviveInterval": 100}
        self.broker = BrokerProcess(root, **settings, brokerName="b", namesrvAddr=self.namesrv)
        self._proxy = Server(root / "proxy.log", "proxy", "-n", self.namesrv)
        self.consumer = Consumer(self._proxy.port, ledger, iter(lambda: moments.randrange(1 << 30), -1))

    @contextmanager
    def running(self) -> Iterator[None]:
        """All but the consumer; killed at the end of the block."""
        with ExitStack() as started:
            for server in (self._namesrv, self.broker, self._proxy):
                server.start()
                started.callback(server.kill)
            yield

    async def kill(self, victim: str) -> None:
        """kill -9, and start it again."""
        if victim == "consumer":
            await self.consumer.kill()
            await self.consumer.start()
            return
        server = self.broker if victim == "broker" else self._proxy
        server.kill()
        await asyncio.to_thread(server.start)


async def send(address: str, ledger: Ledger) -> None:
    """Number after number, while the consumer comes along."""
    async with NetClient() as net:
        for number in itertools.count():
            while len(ledger.open) >= OPEN_MAX:  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_SECONDS)
            name = f"m{number}"
            properties = property_text.encode({"UNIQ_KEY": f"KEY{name}"}).decode()
            header = send_header(TOPIC, number % QUEUES, properties)
            command = Command.request(RequestCode.SEND_MESSAGE_V2, header, name.encode())
            try:
                if (await net.invoke(address, command, 3000)).code == 0:
                    ledger.sent.add(name)
            except (RocketLakeError, OSError):
                pass  # it may be stored, or not
            await asyncio.sleep(PAUSE_SECONDS)


@pytest.mark.crash
@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.smoke), KILLS])
async def test_kills_lose_no_message_and_repeat_none_that_was_acknowledged(kills: int, tmp_path: Path) -> None:
    (seed,) = drawn("kills over gRPC", 1)
    moments = random.Random(seed)
    faults = list(itertools.product(VICTIMS, STEPS))
    moments.shuffle(faults)
    ledger = Ledger()
    cluster = Cluster(tmp_path, ledger, moments)
    with cluster.running():
        async with Admin(namesrv=cluster.namesrv) as admin:
            await admin.create_topic(TOPIC, queues=QUEUES)
        await cluster.consumer.start()
        sending = asyncio.create_task(send(cluster.broker.address, ledger))
        under_way = "nothing"
        try:
            async with asyncio.timeout(LIMIT_SECONDS + 10 * kills):
                for victim, step in itertools.islice(itertools.cycle(faults), kills):
                    under_way = f"kill of the {victim} at {step}"
                    await ledger.until_said(step, moments.randrange(1, 6))
                    await asyncio.sleep(moments.uniform(0, 0.004))
                    if victim == "broker":
                        ledger.broker_falls()
                    ledger.tell("", f"{victim} falls")
                    await cluster.kill(victim)
                    ledger.tell("", f"{victim} is back")
                    ledger.broker_is_back()
                sending.cancel()
                under_way = "the end"
                while ledger.open:
                    await ledger.until_said("acked", 1)
        except TimeoutError:
            pytest.fail(f"seed {seed}, {under_way}: {len(ledger.open)} are lost: {sorted(ledger.open)[:20]}")
        finally:
            sending.cancel()
            await cluster.consumer.kill()
    doubles = sum(ledger.delivered.values()) - len(ledger.delivered)
    if ledger.doubles:
        stories = "\n".join(f"{name or 'kills'}: {', '.join(ledger.story[name])}" for name in ("", *ledger.doubles))
        pytest.fail(f"seed {seed}: acknowledged, and came again; {doubles} doubles in all\n{stories}")
    assert len(ledger.acked) > 10 * kills, f"seed {seed}: the load must really have run"
