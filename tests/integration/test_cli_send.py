"""`rocketlake produce TOPIC -` as a process: bytes as they are, in order, and it can always be stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake import PullConsumer
from rocketlake.base.errors import UsageError
from rocketlake.cli.tree import app
from rocketlake.client.errors import NotSafe
from rocketlake.model.message import StoredMessage
from rocketlake.model.moment import moment_text
from rocketlake.store.durability import Demands, Stage
from rocketlake.testing.cluster import EmbeddedCluster
from tests.stored import known_queues

ROOT = Path(__file__).parents[2]
INTERRUPTED = (
    rb"interrupted: (1 message stored in \w+|0 messages stored in \w+; 1 more on the way, perhaps stored, too)\n"
)


def send(cluster: EmbeddedCluster, *words: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rocketlake", "produce", *words, "-n", cluster.namesrv],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def everything(cluster: EmbeddedCluster, topic: str, count: int) -> list[StoredMessage]:
    async def read() -> list[StoredMessage]:
        async with PullConsumer("reader", namesrv=cluster.namesrv, auto_commit=False) as consumer:
            consumer.assign(await known_queues(consumer, topic))
            await consumer.seek_to_begin()
            found: list[StoredMessage] = []
            while len(found) < count:
                found += await consumer.poll(timeout_ms=1000, max_messages=1000)
            return found

    return cluster.run(read())


def wait_for_first(cluster: EmbeddedCluster, topic: str) -> None:
    async def look() -> None:
        async with PullConsumer("reader", namesrv=cluster.namesrv, auto_commit=False) as consumer:
            consumer.assign(await known_queues(consumer, topic))
            await consumer.seek_to_begin()
            while not await consumer.poll(timeout_ms=1000):
                pass

    cluster.run(look())


def test_bytes_are_sent_as_they_are_and_lines_stay_in_order(cluster: EmbeddedCluster) -> None:
    lines = [b"\xff\xfe", "привет".encode(), b"no end", *(b"%d" % number * 50 for number in range(3000))]
    process = send(cluster, "bytes", "-", "-t", "T", "-H", "a=b")
    output, errors = process.communicate(b"\r\n\n".join(lines), timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert output == b"3003 messages stored in bytes\n"
    messages = everything(cluster, "bytes", 3003)
    assert sorted(message.body for message in messages) == sorted(lines)
    assert {(message.tags, message.properties["a"]) for message in messages} == {("T", "b")}
    place = {line: number for number, line in enumerate(lines)}
    for queue in {message.queue_id for message in messages}:
        order = [place[message.body] for message in messages if message.queue_id == queue]
        assert order == sorted(order)


@pytest.fixture
def without_replicas(cluster: EmbeddedCluster) -> Iterator[None]:
    """The broker asks for a replica of each message, and has none."""
    durability = cluster.standalone.broker.store.durability

    async def ask(demands: Demands) -> None:
        durability.demand(demands)
        durability.fail(Stage.REPLICATED)

    cluster.run(ask(Demands({Stage.REPLICATED: 1000})))
    yield
    cluster.run(ask(Demands()))


@pytest.mark.usefixtures("without_replicas")
def test_a_message_with_too_few_copies_is_no_success(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    processes = send(cluster, "thin", "x"), send(cluster, "thin", "-")
    one, many = processes[0].communicate(timeout=60), processes[1].communicate(b"1\n2\n3\n", timeout=60)
    assert [process.returncode for process in processes] == [1, 1]
    for output, errors in (one, many):
        assert output == b""
        assert b"not as safe as the broker asks: too few replicas are connected (SLAVE_NOT_AVAILABLE)" in errors
    assert b"0 messages stored in thin before the error\n" in many[1]
    assert b"3 messages are stored in thin, but" in many[1]
    words = ("replay", "thin", "--to-topic", "copies", "--state", str(tmp_path), "-n", cluster.namesrv)
    replayed = CliRunner().invoke(app, words)
    assert isinstance(replayed.exception, NotSafe)


def test_a_closed_standard_input_is_an_empty_one(cluster: EmbeddedCluster) -> None:
    command = f"{sys.executable} -m rocketlake produce closed - -n {cluster.namesrv} <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0 messages stored in closed\n", b"")


def test_letters_that_the_terminal_does_not_know_are_escaped(cluster: EmbeddedCluster) -> None:
    cluster.send("letters", ["é".encode()])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "rocketlake",
            "consume",
            "letters",
            "--from",
            "earliest",
            "-c",
            "1",
            "-n",
            cluster.namesrv,
        ],
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert done.stdout.endswith(b"  \\xe9\n")


def test_delayed_lines_are_sent_one_by_one(cluster: EmbeddedCluster) -> None:
    output, _ = send(cluster, "late", "-", "--delay-level", "1").communicate(b"1\n2\n", timeout=60)
    assert output == b"2 messages stored in late\n"
    assert sorted(message.body for message in everything(cluster, "late", 2)) == [b"1", b"2"]


def test_lines_for_a_time_are_sent_one_by_one_and_never_come_early(cluster: EmbeddedCluster) -> None:
    asked_ms = int(time.time() * 1000)
    at = moment_text(asked_ms + 2000)
    outputs = [
        send(cluster, "anytime", "-", *when).communicate(lines, timeout=60)
        for when, lines in ((("--deliver-at", at), b"1\n2\n"), (("--delay", "1s"), b"3\n4\n"))
    ]
    assert outputs == [(b"2 messages stored in anytime\n", b"")] * 2
    messages = everything(cluster, "anytime", 4)
    assert sorted(message.body for message in messages) == [b"1", b"2", b"3", b"4"]
    early = {b"1": 2000, b"2": 2000, b"3": 1000, b"4": 1000}
    assert all(message.store_ms >= asked_ms + early[message.body] for message in messages)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--delay", "1h", "--delay-level", "1"), "delayed by one option"),
        (("--delay", "1h", "--deliver-at", "2030-01-01"), "delayed by one option"),
        (("--delay", "soon"), "'--delay' holds length of time 'soon'"),
        (("--deliver-at", "10m"), "'--deliver-at' holds time '10m'"),
        (("-H", "TIMER_DELAY_MS=5"), "RocketMQ's own"),
    ],
)
def test_a_time_of_delivery_that_is_none_is_refused(words: tuple[str, ...], reason: str) -> None:
    refused = CliRunner().invoke(app, ("produce", "anytime", "x", *words))
    assert isinstance(refused.exception, UsageError)
    assert reason in str(refused.exception)


def test_a_line_that_is_refused_says_how_many_were_stored(cluster: EmbeddedCluster) -> None:
    process = send(cluster, "big", "-")
    _, errors = process.communicate(b"first\n" + b"x" * (5 << 20) + b"\n", timeout=60)
    assert process.returncode != 0
    assert b"1 message stored in big before the error" in errors
    assert b"cure: " in errors
    assert b"Traceback" not in errors


def test_ctrl_c_ends_it_while_a_pipe_is_silent(cluster: EmbeddedCluster) -> None:
    process = send(cluster, "silent", "-")
    assert process.stdin is not None
    process.stdin.write(b"only line\n")
    process.stdin.flush()
    wait_for_first(cluster, "silent")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130  # while the other end of the pipe is open
    _, errors = process.communicate()
    assert re.fullmatch(INTERRUPTED, errors)


def test_ctrl_c_ends_it_in_a_terminal(cluster: EmbeddedCluster) -> None:
    keyboard, terminal = os.openpty()
    try:
        process = send(cluster, "typed", "-", stdin=terminal)
        os.write(keyboard, b"typed line\n")
        wait_for_first(cluster, "typed")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert process.returncode == 130
    assert re.fullmatch(INTERRUPTED, errors)
