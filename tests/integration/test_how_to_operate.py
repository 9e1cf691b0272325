"""The ten tasks of an operator: each is done by the commands of its page, as they stand there, against servers."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rocketlake import Consumer, ConsumerConfig, FirstOffset, Message, Producer
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "operate.md").read_text()
TASKS = {
    title: "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
TLS = (ROOT / "docs" / "how-to" / "tls.md").read_text()
CERTIFICATES = re.findall(r"^    ((?:mkdir|openssl|printf) .*)$", TLS, re.MULTILINE)[:7]
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


class Desk:
    """A folder in which an operator types, and the cluster that he asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (".", "old/bin", "new/bin"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "rocketlake").write_text(f'#!/bin/sh\nexec {sys.executable} -m rocketlake "$@"\n')
            (folder / name / "rocketlake").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "COLUMNS": "200"}
        self.environment["XDG_CONFIG_HOME"] = str(folder / "config")
        self.namesrv = self.metrics = ""
        self._up: subprocess.Popen[str] | None = None

    def up(self, *options: str) -> None:
        """The servers of one machine, on free ports."""
        words = [sys.executable, "-m", "rocketlake", "up", "--namesrv-port", "0", "--broker-port", "0", *options]
        self._up = subprocess.Popen(
            words, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._up.stdout is not None
        for line in self._up.stdout:
            if found := re.search(r"name server +(\S+)", line):
                self.namesrv = found[1]
            if found := re.search(r"metrics +http://(\S+)/metrics  \(health", line):
                self.metrics = found[1]
            if "Ctrl-C" in line:
                return
        raise AssertionError("the servers did not start")

    def does(self, title: str) -> str:
        """Run the commands of a task, with the ports of this test; what they print."""
        ports = dict(zip(("20911", "19876"), self._free_ports(), strict=True))
        text = TASKS[title].replace("127.0.0.1:9876", self.namesrv).replace("127.0.0.1:5557", self.metrics)
        for written, free in ports.items():
            text = text.replace(written, free)
        return self.types(text)

    def types(self, text: str) -> str:
        """Run these lines; the first one that fails fails the test."""
        done = subprocess.run(
            ["bash", "-c", f"set -eu -o pipefail\n{text}"],
            cwd=self.folder,
            env=self.environment | ({"NAMESRV_ADDR": self.namesrv} if self.namesrv else {}),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def stop(self) -> None:
        """All servers that a task has left."""
        for file in self.folder.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGTERM)
        if self._up is not None:
            self._up.terminate()
            self._up.communicate(timeout=60)

    @staticmethod
    def _free_ports() -> list[str]:
        """Two ports, each with those around it that a broker takes, too."""
        found: list[str] = []
        while len(found) < 2:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            with suppress(OSError), ExitStack() as all_free:
                for number in (port - 2, port, port + 1):
                    all_free.enter_context(socket.create_server(("127.0.0.1", number)))
                found.append(str(port))
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    try:
        yield desk
    finally:
        desk.stop()


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A cluster with the topic orders: 30 messages with keys, of which the group billing has read some."""
    desk.up("--dir", "data")

    async def fill() -> None:
        async with Producer("shop", namesrv=desk.namesrv) as producer:
            for number in range(30):
                await producer.send(Message("orders", f"order-{number}".encode(), keys=f"order-{number}"))

    asyncio.run(fill())
    return desk


async def billed(desk: Desk, count: int = 30) -> None:
    """The group billing reads so many messages, and confirms all but the last one."""
    async with Consumer("billing", "orders", namesrv=desk.namesrv, from_where=FirstOffset.FIRST) as consumer:
        for _ in range(count):
            assert await consumer.receive(timeout_ms=60_000) is not None


def test_every_task_has_commands() -> None:
    assert len(TASKS) == 10
    counted = {title: len([line for line in text.splitlines() if line]) for title, text in TASKS.items()}
    table = dict(re.findall(r"^\| \[(.*?)\]\(.*?\) \| (\d+) \|", PAGE, re.MULTILINE))
    assert {title.lower(): str(number) for title, number in counted.items()} == table


def test_find_a_lost_message(shop: Desk) -> None:
    said = shop.does("Find a lost message")
    assert re.search(r"^keys +order-17$", said, re.MULTILINE)
    assert said.count("order-17") >= 3
    assert re.search(r"message \w{32} of topic orders", said)


def test_reset_a_group(shop: Desk) -> None:
    asyncio.run(billed(shop))
    said = shop.does("Reset a group")
    assert "dry run: nothing was changed" in said
    assert "done: 30 messages will be read again" in said
    assert "lag 30 messages" in said


def test_resend_dead_letters(shop: Desk) -> None:
    async def give_up() -> None:
        config = ConsumerConfig(concurrency=1)
        who = {"namesrv": shop.namesrv, "from_where": FirstOffset.FIRST, "config": config}
        async with Consumer("billing", "orders", **who) as consumer:  # type: ignore[arg-type]
            for number in range(30):
                assert await consumer.receive(timeout_ms=60_000) is not None
                if number < 3:
                    consumer.later(delay_level=-1, error="no such account" if number else "another one")

    asyncio.run(give_up())
    said = shop.does("Resend dead letters")
    assert re.search(r"billing +3 +3 ", said)
    assert "would send 2 dead letters to group billing again" in said
    assert said.rstrip().splitlines()[-1].startswith("2 dead letters sent again")
    asyncio.run(billed(shop, 2))


def test_see_why_sends_are_busy(shop: Desk) -> None:
    shop.types("rocketlake topic alter orders -a +quota.requests.in=1")
    shop.types("for n in 1 2 3 4; do rocketlake produce orders x || true; done")
    said = shop.does("See why sends are busy")
    assert "brokers       1, 1 master" in said
    assert "putTps" in said
    assert re.search(r'rocketlake_busy_total\{.*cause=".*"\} \d', said)


def test_add_a_broker_and_move_a_topic(shop: Desk) -> None:
    asyncio.run(billed(shop))
    said = shop.does("Add a broker")
    assert "topic orders is on broker-b, too" in said
    said = shop.does("Move a topic")
    assert "rw -> " in said
    assert re.search(r"stored in orders: broker broker-b", said)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_rotate_a_certificate(desk: Desk) -> None:
    desk.types("\n".join(CERTIFICATES))
    desk.environment["ROCKETLAKE_TLS_CONFIG"] = "tls/client.properties"
    desk.up("--dir", "data", "--set", "tlsMode=enforcing", "--set", "tlsConfigFile=tls/server.properties")
    before = (desk.folder / "tls" / "server.pem").read_text()
    desk.does("Rotate a certificate")
    assert (desk.folder / "tls" / "server.pem").read_text() != before
    assert "stored" in desk.types("rocketlake produce orders hello")


def test_find_the_slow_consumer(shop: Desk) -> None:
    async def look() -> str:
        async with Consumer("billing", "orders", namesrv=shop.namesrv, from_where=FirstOffset.FIRST) as consumer:
            await consumer.receive(timeout_ms=60_000)
            return await asyncio.to_thread(shop.does, "Find the slow consumer")

    said = asyncio.run(look())
    (slow,) = set(re.findall(r"^member (\S+) at ", said, re.MULTILINE))
    assert re.search(rf"^orders +broker-a +\d+ .*{re.escape(slow)}$", said, re.MULTILINE)
    assert re.search(r"^lag \d+ messages, the first of them there for", said, re.MULTILINE)
    assert "PROP_CONSUME_TYPE: " in said


@pytest.mark.parametrize(
    ("task", "left"),
    [
        ("Back up and restore", ["before the copy"]),
        ("Upgrade and go back", ["by the old version", "by the new version"]),
    ],
)
def test_back_up_and_upgrade(desk: Desk, task: str, left: list[str]) -> None:
    last = desk.does(task).splitlines()[-len(left) :]
    assert [line.split("  ")[-1] for line in last] == left
