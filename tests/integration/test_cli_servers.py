"""`rocketlake up`, `namesrv` and `broker` as processes: what they print, how they stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Message, Producer
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.admin.replicas.asked import ClusterReplicas
from rocketlake.base.errors import LinkError
from rocketlake.client.config import ProducerConfig
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.scraped import get

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


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    process.send_signal(number)
    output, _ = process.communicate(timeout=100)
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_prints_addresses_and_next_commands_and_stops_cleanly(
    start: Start, tmp_path: Path, number: int
) -> None:
    process = start("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    namesrv = read_until(process, r"name server +(127\.0\.0\.1:\d+)").group(1)
    read_until(process, r"broker +127\.0\.0\.1:\d+")
    metrics = read_until(process, r"metrics +http://(127\.0\.0\.1:\d+)/metrics").group(1)
    assert (await get(metrics, "/ready")).status == 200
    read_until(process, f'rocketlake produce orders "hello" -n {namesrv}')
    read_until(process, "Ctrl-C")
    async with Cluster(namesrv) as cluster:
        assert list(await cluster.masters()) == ["broker-a"]
    assert end(process, number).endswith("stopping ...\nstopped\n")
    assert process.returncode == 0
    assert not (tmp_path / "data" / "store" / "abort").exists()


async def test_a_name_server_and_a_broker_of_a_broker_conf_find_each_other(start: Start, tmp_path: Path) -> None:
    first = start("run", "namesrv", "--port", "0")
    namesrv = read_until(first, r"up at (127\.0\.0\.1:\d+)").group(1)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"# as users have it\nbrokerClusterName = C1\nbrokerName=b1\nlistenPort=0\nfastListenPort=0\n"
        f"namesrvAddr={namesrv}\nstorePathRootDir={tmp_path}/store\nflushDiskType=SYNC_FLUSH\n"
        f"mappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\nmaxHashSlotNum=100\n"
    )
    second = start("run", "broker", "-c", str(conf))
    read_until(second, "broker b1 of C1 is up")
    async with Cluster(namesrv) as cluster:
        assert list(await cluster.masters()) == ["b1"]
    assert end(second).endswith("stopped\n")
    assert end(first).endswith("stopped\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("up", "--dir", "data", "--namesrv-port", "PORT", "--broker-port", "0"), "--namesrv-port"),
        (("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "PORT"), "--broker-port"),
        (("run", "namesrv", "--port", "PORT"), "--port"),
    ],
)
def test_a_port_in_use_is_named_with_its_cure(start: Start, words: tuple[str, ...], cure: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = start(*(port if word == "PORT" else word for word in words))
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 1
    assert f"error: cannot listen on 127.0.0.1:{port}: Address already in use" in output
    assert f"cure: stop the server that listens there, or give another port with {cure}\n" in output
    assert "Traceback" not in output


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--replicas", "2")])
def test_two_servers_on_one_port_are_refused_before_anything_starts(
    start: Start, tmp_path: Path, more: tuple[str, ...]
) -> None:
    process = start("up", "--dir", "data", "--namesrv-port", "22391", "--broker-port", "22391", *more)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "error: port 22391 is wanted twice: --namesrv-port and --broker-port\n" in output
    assert "cure: give another --namesrv-port or --broker-port" in output
    assert not list(tmp_path.rglob("*.conf"))


@pytest.mark.long
def test_an_address_of_another_machine_is_named_with_its_cure(start: Start, tmp_path: Path) -> None:
    words = ["run", "namesrv", "--host", "192.0.2.1", "--port", "0"]
    output, _ = start(*words).communicate(timeout=100)
    assert "nobody would be asked who it is" in output and "cure: set authenticationEnabled=true" in output
    conf = tmp_path / "namesrv.conf"
    conf.write_text("allowUnauthenticated=true\n")
    output, _ = start(*words, "-c", str(conf)).communicate(timeout=100)
    assert "Cannot assign requested address" in output
    assert "cure: give an address of this machine with --host" in output


async def test_a_broker_registers_where_its_file_says_whatever_the_environment_says(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    production = read_until(start("run", "namesrv", "--port", "0"), r"up at (127\.0\.0\.1:\d+)").group(1)
    other = read_until(start("run", "namesrv", "--port", "0"), r"up at (127\.0\.0\.1:\d+)").group(1)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"brokerName=b1\nlistenPort=0\nfastListenPort=0\nnamesrvAddr={other}\nstorePathRootDir={tmp_path}/store\n"
        "mappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\nmaxHashSlotNum=100\n"
    )
    monkeypatch.setenv("NAMESRV_ADDR", production)
    second = start("run", "broker", "-c", str(conf))
    read_until(second, f"registers with name server {other} .from namesrvAddr in {conf}.; NAMESRV_ADDR={production} is")
    async with Cluster(other) as cluster:
        assert list(await cluster.masters()) == ["b1"]
    async with Cluster(production) as cluster:
        for asking in (cluster.masters(), cluster.route("T")):
            with pytest.raises(LinkError, match=r"no broker is registered.*registers each 30 s"):
                await asking


@pytest.mark.long
def test_log_lines_have_time_level_and_logger_and_their_file_is_opened_anew(start: Start, tmp_path: Path) -> None:
    process = start("run", "namesrv", "--port", "0", "--log-file", "log", "--log-level", "debug")
    read_until(process, "is up at")
    (tmp_path / "log").rename(tmp_path / "log.1")
    process.send_signal(signal.SIGHUP)
    wait_for(lambda: (tmp_path / "log").exists())
    assert end(process).endswith("stopped\n")
    assert process.returncode == 0
    assert re.match(
        r"20\S+T\S+ INFO rocketlake\.cli\.build rocketlake \S+, .*, Python", (tmp_path / "log.1").read_text()
    )


@pytest.mark.long
def test_up_takes_settings_of_a_broker_conf(start: Start) -> None:
    words = ("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    process = start(*words, "--set", "enablePropertyFilter=true", "--set", "brokerName=mine")
    namesrv = read_until(process, r"name server +(127\.0\.0\.1:\d+)").group(1)
    read_until(process, "Ctrl-C")
    start("produce", "T", "x", "-H", "price=5", "-n", namesrv).communicate(timeout=100)
    filtered = ("replay", "T", "--to-topic", "U", "--sql92", "price > 3", "--state", "state", "-n", namesrv)
    copied, _ = start(*filtered).communicate(timeout=100)
    assert "1 message replayed into U" in copied
    refused, _ = start(*words, "--set", "enablePropertyFilte=true").communicate(timeout=100)
    assert "did you mean enablePropertyFilter?" in refused


@pytest.mark.long
def test_the_commands_that_up_shows_work_when_users_are_asked_for(start: Start, tmp_path: Path) -> None:
    words = ("up", "--namesrv-port", "0", "--broker-port", "0", "--set", "authenticationEnabled=true")
    process = start(*words, "--dir", "my data")
    assert str(tmp_path / "my data" / "admin_password") in read_until(process, "^  users .*").group()
    steps = steps_of(process)
    assert steps[0].startswith("  export ROCKETMQ_ACCESS_KEY=admin ROCKETMQ_SECRET_KEY=")
    consume = steps[1] + " --from earliest --count 1"
    done = as_typed([steps[0], steps[2], consume, steps[3]], tmp_path)
    assert (done.returncode, "hello" in done.stdout, "orders" in done.stdout) == (0, True, True), done.stderr

    first = '{"username":"root","password":"a-secret-of-mine"}'
    process = start(*words, "--dir", "other", "--metrics-port", "0", "--set", f"initAuthenticationUser={first}")
    read_until(process, "^  users .*FILE below has the lines accessKey: NAME and secretKey: KEY")
    (tmp_path / "FILE").write_text("accessKey: root\nsecretKey: a-secret-of-mine\n")
    done = as_typed(steps_of(process)[-1:], tmp_path)
    assert (done.returncode, "no topics yet" in done.stdout + done.stderr) == (0, True), done.stderr


def steps_of(process: subprocess.Popen[str]) -> list[str]:
    """The lines that `rocketlake up` has one try."""
    assert process.stdout is not None
    read_until(process, "^Try, in another terminal:")
    return list(iter(lambda: process.stdout.readline().rstrip(), ""))  # type: ignore[union-attr]


def as_typed(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """These lines in one shell, in which `rocketlake` is the one under test."""
    own = f'rocketlake() {{ {sys.executable} -m rocketlake "$@"; }}\nset -e\n'
    script = own + "\n".join(lines)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.long
def test_a_folder_that_is_a_file_is_named_with_its_option(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    output, _ = start("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0").communicate(timeout=100)
    assert "the folder cannot be made" in output
    assert "--dir" in output
    assert "Traceback" not in output


@pytest.mark.long
def test_a_folder_in_use_is_named(start: Start) -> None:
    words = ("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    first = start(*words)
    read_until(first, "Ctrl-C")
    second: Any = start(*words)
    output, _ = second.communicate(timeout=100)
    assert second.returncode != 0
    assert "data/store" in output
    assert "Traceback" not in output
    assert end(first).endswith("stopped\n")


@pytest.mark.long
def test_tail_waits_for_a_topic_that_is_not_there_and_shows_its_first_message(start: Start, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        tail = start("consume", "later", "--count", "2", "--bodies", "-n", cluster.namesrv)
        read_until(tail, "does not exist yet")
        cluster.send("later", [b"first", b"second"], queue=0)
        output, _ = tail.communicate(timeout=100)
    assert output.splitlines()[-2:] == ["first", "second"]
    assert tail.returncode == 0


@pytest.mark.parametrize("topic", ["T", "not-there"])
def test_tail_ends_with_its_reader_though_no_message_comes(start: Start, tmp_path: Path, topic: str) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("T", [b"x", b"y"], queue=0)
        tail = start("consume", topic, "--from", "earliest", "-n", cluster.namesrv)
        assert tail.stdout is not None
        read_until(tail, "@1  y" if topic == "T" else "does not exist yet")
        tail.stdout.close()
        assert tail.wait(timeout=100) == 1
        tail.stdout = None


def test_ctrl_c_ends_tail_quietly(start: Start, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("T", [b"x"])
        tail = start("consume", "T", "-n", cluster.namesrv)
        read_until(tail, "reading T")
        assert end(tail) == ""
        assert tail.returncode == 0


@pytest.mark.long
async def test_a_hangup_ends_no_server(start: Start, tmp_path: Path) -> None:
    process = start("up", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    read_until(process, "Ctrl-C")
    process.send_signal(signal.SIGHUP)
    read_until(process, "SIGHUP: no log file to reopen")
    assert end(process).endswith("stopped\n")
    assert process.returncode == 0
    assert not (tmp_path / "data" / "store" / "abort").exists()


@pytest.mark.long
async def test_up_with_replicas_survives_the_kill_of_its_master(start: Start, tmp_path: Path) -> None:
    process = start("up", "--replicas", "3", "--dir", "data", "--namesrv-port", "0", "--broker-port", "0")
    namesrv = read_until(process, r"name server +(127\.0\.0\.1:\d+)").group(1)
    found = [read_until(process, rf"broker {number} .*process (\d+)") for number in (1, 2, 3)]
    pids = {number: int(each.group(1)) for number, each in enumerate(found, 1)}
    names = ("name server", "broker 1", "broker 2", "broker 3")
    pages = [read_until(process, rf"metrics +http://(\S+)/metrics  .{name}").group(1) for name in names]
    assert [(await get(page, "/metrics")).status for page in pages] == [200] * 4
    read_until(process, "Ctrl-C")
    async with Cluster(namesrv) as cluster:
        replicas = ClusterReplicas(cluster)
        while len((await replicas.group("broker-a")).in_sync) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await cluster.create_topic(TopicPlan("T", 1, 6))
        async with Producer("p", namesrv=namesrv, config=ProducerConfig(send_timeout_ms=20_000)) as producer:
            await producer.send(Message("T", b"before"))
            old = (await replicas.group("broker-a")).master
            assert old is not None
            os.kill(pids[old], signal.SIGKILL)
            assert (await producer.send(Message("T", b"after"))).queue_offset == 1
        now = await replicas.group("broker-a")
        assert now.master not in (None, old)
        newest = (await replicas.switches("broker-a"))[0]
        assert (newest.epoch, newest.before, newest.master) == (now.master_epoch, old, now.master)
    read_until(process, f"broker {old} was killed by SIGKILL; it starts again")
    again = int(read_until(process, f"broker {old} is up again: process (\\d+)").group(1))
    assert end(process).endswith("stopped\n")
    for pid in (*pids.values(), again):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
