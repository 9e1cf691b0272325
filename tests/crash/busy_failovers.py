"""A group under the work of busy_group.py loses its master, by a kill or a hand-over, again and again.

`make busy-failovers FAULTS=50`: kills, hand-overs and hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from interop.apache import free_ports, wait_for_port
from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import ReplicasTable, encode_names
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import BrokerProcess, member
from tests.crash.busy_group import BROKER_SETTINGS, TOPICS, BusyClients

__all__ = ["play"]

_NAME = "busy"


class _Group:
    """A name server with its controller, and three brokers, each a process."""

    def __init__(self, root: Path) -> None:
        (self._port,) = free_ports(1)
        self._root = root
        self.namesrv = f"127.0.0.1:{self._port}"
        self._brokers = [
            member(root / f"broker{number}", _NAME, self.namesrv, self.namesrv, **BROKER_SETTINGS)
            for number in range(3)
        ]
        self.net = NetClient(clock=SystemClock())

    async def start(self) -> None:
        """Start all; the roles come later."""
        await asyncio.to_thread(self._start_namesrv)
        await asyncio.gather(*(asyncio.to_thread(broker.start) for broker in self._brokers))

    def _start_namesrv(self) -> None:
        conf = self._root / "namesrv.conf"
        settings = f"listenPort={self._port}\nenableControllerInNamesrv=true\nkvConfigPath={self._root}/kv.json\n"
        conf.write_text(settings)
        with (self._root / "namesrv.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", "run", "namesrv", "-c", str(conf)]
            self._namesrv = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        wait_for_port(self._port, self._namesrv)

    async def stop(self) -> None:
        """Kill the brokers, stop the name server."""
        await self.net.close()
        for broker in self._brokers:
            with contextlib.suppress(ProcessLookupError):  # the last one that lost its role is not started again
                broker.kill()
        self._namesrv.terminate()
        self._namesrv.wait(20)

    async def settled(self, seconds: float = 60) -> BrokerProcess:
        """The master, when all three are in step."""
        command = Command.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names([_NAME]))
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            answer = await self.net.invoke(self.namesrv, command, 5000)
            group = ReplicasTable.decode(answer.body_bytes).table.get(_NAME)
            if group is not None and group.master_address and len(group.in_sync_replicas) == len(self._brokers):
                return next(broker for broker in self._brokers if broker.address == group.master_address)
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"not all replicas are in step with a master: {group}")
            await asyncio.sleep(0.02)


async def play(folder: Path, faults: Sequence[str], seed: int = 1) -> tuple[BusyClients, list[str]]:
    """The clients, and all that is not as it must be."""
    group = _Group(folder)
    try:
        await group.start()
        await _make_topics(group)
        clients = BusyClients(group.namesrv, seed)
        try:
            await clients.start()
            await clients.goes_on(300)
            for kind, is_last in zip(faults, [*[False] * (len(faults) - 1), True], strict=True):
                await _change_master(group, clients, kind, is_last=is_last)
            await clients.end()
            return clients, await clients.problems()
        finally:
            await clients.stop()
    finally:
        await group.stop()


async def _change_master(group: _Group, clients: BusyClients, kind: str, *, is_last: bool) -> None:
    """The clients are at work before, under and after it; the old master comes back, if another fault follows."""
    old = await group.settled()
    if kind == "hang":
        os.killpg(old._process.pid, signal.SIGSTOP)
    elif kind == "kill":
        old.kill()
    else:
        await asyncio.to_thread(old.stop)
    await clients.goes_on(300)
    if kind == "hang":
        os.killpg(old._process.pid, signal.SIGCONT)
    elif is_last:
        return
    else:
        await asyncio.to_thread(old.start)
    new: BrokerProcess = await group.settled()
    assert new is not old
    await clients.goes_on(100)


async def _make_topics(group: _Group) -> None:
    """On the master; each answer says that the slaves have the topic, too."""
    master = await group.settled()
    for topic in TOPICS:
        header = CreateTopicHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=3,
            write_queue_nums=3,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        command = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        answer = await group.net.invoke(master.address, command, 5000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def main(count: int) -> int:
    """1 if a rule is broken."""
    with tempfile.TemporaryDirectory() as folder:
        faults = list(islice(cycle(("kill", "hand over", "hang")), count))
        clients, problems = asyncio.run(play(Path(folder), faults, seed=count))
    print(clients.report())
    print(*problems, sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
