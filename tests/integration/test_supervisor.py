"""The processes of `rocketlake up --replicas N`: none is left behind, none is started twice."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake import ClientConfig
from rocketlake.admin import Admin
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import RemoteError
from rocketlake.cli import kept_process as module
from rocketlake.cli.supervisor import Supervisor


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    """True if no such process runs. One that nobody has asked for its end is gone, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.long
async def test_a_start_that_takes_long_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAY_SECONDS", 0.02)
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    said: list[str] = []
    supervisor = Supervisor(tmp_path, 0, namesrv_port=0, broker_port=0, settings={}, say=said.append)
    async with supervisor:
        first, address = supervisor.name_server.pid, supervisor.name_server.address
        os.kill(first, signal.SIGKILL)
        await until(lambda: any("is up again" in text for text in said))
        starting = {int(found.group(1)) for text in said if (found := re.search(r"still starts \(process (\d+)", text))}
        assert starting == {first, supervisor.name_server.pid}
        assert supervisor.name_server.address == address  # the brokers know it by that
    assert all(is_gone(pid) for pid in starting)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_no_process_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rocketlake", "up", "--replicas", "2", "--dir", str(tmp_path / "data"),
        "--namesrv-port", "0", "--broker-port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    pids: list[int] = []
    async with asyncio.timeout(60):
        while not (line := await process.stdout.readline()).startswith(b"Ctrl-C"):
            assert line
            pids += [int(found.group(1)) for found in re.finditer(rb"; process (\d+)\)", line)]
    assert len(pids) == 3
    process.kill()
    await process.wait()
    await until(lambda: all(is_gone(pid) for pid in pids))
    assert not list((tmp_path / "data").glob("*/store/abort"))  # in order


@pytest.mark.long
async def test_each_broker_of_the_group_serves_grpc_at_a_port_of_its_own(tmp_path: Path) -> None:
    first = two_free_ports()
    settings = {"grpcServerPort": str(first)}
    supervisor = Supervisor(tmp_path, 2, namesrv_port=0, broker_port=0, settings=settings, say=print)
    async with supervisor:
        assert [broker.grpc for broker in supervisor.brokers] == [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]


@pytest.mark.long
async def test_all_servers_of_the_group_know_the_same_users(tmp_path: Path) -> None:
    settings = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    supervisor = Supervisor(tmp_path, 2, namesrv_port=0, broker_port=0, settings=settings, say=print)
    async with supervisor:
        known = ClientConfig(credentials=Credentials("admin", only_secret(tmp_path)))
        namesrv = supervisor.name_server.address
        async with Admin(namesrv=namesrv, client_config=known) as admin:
            assert namesrv in (await admin.create_user("alice")).servers
        async with Admin(namesrv=namesrv) as stranger:
            with pytest.raises(RemoteError, match="only signed requests"):
                await stranger.topics()


def only_secret(folder: Path) -> str:
    """What the only first start has left there, beside the folders of the servers."""
    (file,) = folder.rglob("admin_password")
    assert file.parent == folder
    return file.read_text().strip()


def two_free_ports() -> int:
    """The first of two ports that lie side by side."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except OSError:
                continue
            return int(one.getsockname()[1])


_SLOW = """
import asyncio, sys
from rocketlake.cli.logs import Logs, LOG_FORM_DEFAULT, Severity
from rocketlake.cli.output import run
from rocketlake.cli.serve import serve_until_told

class Slow:
    async def start(self):
        try:
            print("starts", flush=True)
            await asyncio.Event().wait()
        finally:
            print("cleaned", flush=True)

with Logs(Severity.WARNING, LOG_FORM_DEFAULT, None) as logs:
    run(serve_until_told(Slow(), lambda: None, logs, str, "", at_eof=True))
"""


@pytest.mark.long
@pytest.mark.parametrize("wish", ["SIGTERM", "SIGINT", "end of input"])
def test_a_start_that_does_not_end_can_be_stopped(wish: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", _SLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "starts\n"
    if wish != "end of input":
        process.send_signal(signal.Signals[wish])
    output, _ = process.communicate(timeout=30)  # it closes the input, too
    assert (output, process.returncode) == ("cleaned\nstopped before it was up\n", 0)
