"""`rocketlake up`, `namesrv` and `broker` as processes: what they print, how they stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.cli.cluster import Cluster
from rocketlake.testing.cluster import EmbeddedCluster

ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start("up", ...) -> the process, its standard output and error joined."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rocketlake", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            preexec_fn=_hear_interrupts,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _hear_interrupts() -> None:
    # What a shell runs in the background hears no Ctrl-C, nor do its children: these tests must not depend on it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"{pattern!r} was not printed, but:\n{text}")


def end(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_prints_addresses_and_next_commands_and_stops_cleanly(
    start: Start, tmp_path: Path, number: int
) -> None:
    process = start("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    namesrv = read_until(process, r"name server +(127\.0\.0\.1:\d+)").group(1)
    read_until(process, r"broker +127\.0\.0\.1:\d+")
    read_until(process, f'rocketlake send orders "hello" -n {namesrv}')
    read_until(process, "Ctrl-C")
    async with Cluster(namesrv) as cluster:
        assert list(await cluster.masters()) == ["broker-a"]
    assert end(process, number).endswith("stopping ...\nstopped\n")
    assert process.returncode == 0
    assert not (tmp_path / "data" / "store" / "abort").exists()


async def test_a_name_server_and_a_broker_of_a_broker_conf_find_each_other(start: Start, tmp_path: Path) -> None:
    first = start("namesrv", "--port", "0")
    namesrv = read_until(first, r"up at (127\.0\.0\.1:\d+)").group(1)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"# as users have it\nbrokerClusterName = C1\nbrokerName=b1\nlistenPort=0\nfastListenPort=0\n"
        f"namesrvAddr={namesrv}\nstorePathRootDir={tmp_path}/store\nflushDiskType=SYNC_FLUSH\n"
        f"mappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\nmaxHashSlotNum=100\n"
    )
    second = start("broker", "-c", str(conf))
    read_until(second, "broker b1 of C1 is up")
    async with Cluster(namesrv) as cluster:
        assert list(await cluster.masters()) == ["b1"]
    assert end(second).endswith("stopped\n")
    assert end(first).endswith("stopped\n")


def test_a_port_in_use_is_named_with_its_cure(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("up", "--dir", "data", "--namesrv-port", str(port), "--broker-port", "0")
        output, _ = process.communicate(timeout=30)
    assert process.returncode != 0
    assert output.startswith("error: ")
    assert str(port) in output
    assert "cure: " in output
    assert "Traceback" not in output


def test_a_folder_in_use_is_named(start: Start) -> None:
    words = ("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    first = start(*words)
    read_until(first, "Ctrl-C")
    second: Any = start(*words)
    output, _ = second.communicate(timeout=30)
    assert second.returncode != 0
    assert "data/store" in output
    assert "Traceback" not in output
    assert end(first).endswith("stopped\n")


def test_tail_waits_for_a_topic_that_is_not_there_and_shows_its_first_message(start: Start, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        tail = start("tail", "later", "--count", "2", "--bodies", "-n", cluster.namesrv)
        read_until(tail, "does not exist yet")
        cluster.send("later", [b"first", b"second"], queue=0)
        output, _ = tail.communicate(timeout=30)
    assert output.splitlines()[-2:] == ["first", "second"]
    assert tail.returncode == 0


def test_ctrl_c_ends_tail_quietly(start: Start, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("T", [b"x"])
        tail = start("tail", "T", "-n", cluster.namesrv)
        read_until(tail, "tailing T")
        assert end(tail) == ""
        assert tail.returncode == 0
