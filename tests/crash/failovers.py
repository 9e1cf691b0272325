"""Three real brokers under the controller of a name server, their master killed or stopped under load, again and again.

`make failovers KILLS=200`: after each fault the longest time without an acknowledged message is measured. At the end
each acknowledged message must be where its acknowledgement said.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from interop.apache import free_ports, wait_for_port
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.replicas import ReplicasTable, encode_names
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import BrokerProcess, Ledger, Load, Reader

FAULTS = ("kill", "stop", "kill a slave", "hand over")
_NAME = "failover"


class GroupProcesses:
    """A name server with its controller, and three brokers, each a process."""

    def __init__(self, root: Path) -> None:
        (self.port,) = free_ports(1)
        self.root = root
        self.address = f"127.0.0.1:{self.port}"
        self.brokers = [
            BrokerProcess(
                root / f"broker{number}",
                brokerName=_NAME,
                namesrvAddr=self.address,
                enableControllerMode="true",
                controllerAddr=self.address,
                haListenPort=free_ports(1)[0],
                fastListenPort=0,
            )
            for number in range(3)
        ]
        self.by_address = {broker.address: broker for broker in self.brokers}
        self.net = NetClient(clock=SystemClock())

    def start(self) -> None:
        """Start all; the roles come later."""
        conf = self.root / "namesrv.conf"
        conf.write_text(f"listenPort={self.port}\nenableControllerInNamesrv=true\nkvConfigPath={self.root}/kv.json\n")
        with (self.root / "namesrv.log").open("ab") as log:
            command = [sys.executable, "-m", "rocketlake", "namesrv", "-c", str(conf)]
            self._namesrv = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        wait_for_port(self.port, self._namesrv)
        for broker in self.brokers:
            broker.start()

    async def stop(self) -> None:
        """Kill the brokers, stop the name server."""
        await self.net.close()
        for broker in self.brokers:
            broker.kill()
        self._namesrv.terminate()
        self._namesrv.wait(20)

    async def settled(self) -> BrokerProcess:
        """The master, when all three are in step."""
        return self.by_address[await settled(self.net, self.address, _NAME, 3)]


async def settled(net: NetClient, controller: str, name: str, count: int, seconds: float = 40) -> str:
    """The address of the group's master, when so many replicas are in step."""
    command = Command.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_names([name]))
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        answer = await net.invoke(controller, command, 3000)
        group = ReplicasTable.decode(answer.body_bytes).table.get(name)
        if group is not None and group.master_address and len(group.in_sync_replicas) == count:
            return group.master_address
        await asyncio.sleep(0.02)
    raise TimeoutError(f"not {count} replicas in step with a master: {group}")


class Sending:
    """Senders that go on at whatever broker takes their message; notes when each was acknowledged."""

    def __init__(self, addresses: Sequence[str], ledger: Ledger) -> None:
        self._addresses = addresses
        self._ledger = ledger
        self._load = Load("", ledger)
        self._net = NetClient(clock=SystemClock())
        self.acked_at: list[float] = []
        self.is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._first = 0
        self._awaited = 0
        self._reached = asyncio.Event()

    def begin(self, senders: int, name: str) -> None:
        """Send until `end`."""
        self._tasks = [asyncio.create_task(self._send(f"{name}-{number}", number)) for number in range(senders)]

    async def end(self) -> None:
        """Returns when no message is under way."""
        self.is_over = True
        await asyncio.gather(*self._tasks)
        await self._net.close()

    async def _send(self, name: str, sender: int) -> None:
        number = 0
        while not self.is_over:
            at = self._first
            identity = f"{name}-{number}"
            number += 1
            self._ledger.tried.add(identity)
            try:
                address = self._addresses[at % len(self._addresses)]
                answer = await self._net.invoke(address, self._load._command(identity, sender), 500)
            except RocketLakeError:
                await self._go_on(at)
                continue
            if answer.code != ResponseCode.SUCCESS:
                await self._go_on(at)
                continue
            reply = answer.header(SendReplyHeader)
            self._ledger.acked[identity] = (reply.queue_id, reply.queue_offset)
            self.acked_at.append(asyncio.get_running_loop().time())
            if len(self.acked_at) >= self._awaited:
                self._reached.set()

    async def _go_on(self, at: int) -> None:
        """Try the next broker, all senders together."""
        if self._first == at:
            self._first = at + 1
        await asyncio.sleep(0.005)

    async def goes_on(self, count: int) -> None:
        """Returns when so many more messages are acknowledged."""
        self._awaited = len(self.acked_at) + count
        self._reached.clear()
        await self._reached.wait()

    def gap_since(self, start: float) -> float:
        """The longest time without an acknowledgement behind `start`, seconds."""
        times = [start, *(at for at in self.acked_at if at >= start)]
        return max(later - earlier for earlier, later in zip(times, [*times[1:], times[-1]], strict=True))


async def fault(group: GroupProcesses, sending: Sending, kind: str) -> float:
    """Let it happen under load; the gap that senders saw, in seconds. All three are in step afterwards."""
    master = await group.settled()
    await asyncio.sleep(random.uniform(0.1, 0.3))
    loop = asyncio.get_running_loop()
    start = loop.time()
    victim = master if kind != "kill a slave" else next(each for each in group.brokers if each is not master)
    if kind == "stop":
        os.killpg(victim._process.pid, signal.SIGSTOP)
    elif kind == "hand over":
        victim._process.terminate()
    else:
        victim.kill()
    await asyncio.wait_for(sending.goes_on(200), 20)
    await asyncio.sleep(0.3)
    gap = sending.gap_since(start)
    if kind == "stop":
        os.killpg(victim._process.pid, signal.SIGCONT)
    else:
        await asyncio.get_running_loop().run_in_executor(None, lambda: victim._process.wait(30))
        victim.start()
    await group.settled()
    return gap


async def judge(group: GroupProcesses, ledger: Ledger) -> list[str]:
    """Acknowledged messages that are not where they should be."""
    master = await group.settled()
    await asyncio.sleep(0.5)
    reader = Reader(master.address, ledger)
    await reader.read_new()
    return reader.lost()


def report(gaps: dict[str, list[float]], acknowledged: int, lost: int) -> None:
    """Print the quantiles; keep all gaps in bench/results/failovers.json."""
    figures = {kind: sorted(round(gap * 1000) for gap in found) for kind, found in gaps.items() if found}
    for kind, found in figures.items():
        print(f"{kind}: p50 {statistics.median(found):.0f} ms, most {found[-1]} ms of {len(found)}")
    print(f"{lost} of {acknowledged} acknowledged messages are lost")
    text = json.dumps({"gap_ms": figures, "acknowledged": acknowledged, "lost": lost})
    Path("bench/results/failovers.json").write_text(text + "\n")


async def play(folder: Path, kills: int) -> tuple[dict[str, list[float]], int, list[str]]:
    """The gaps by fault, how many messages were acknowledged, and which of them are lost."""
    gaps: dict[str, list[float]] = {kind: [] for kind in FAULTS}
    ledger = Ledger()
    group = GroupProcesses(folder)
    try:
        group.start()
        sending = Sending([*group.by_address], ledger)
        await group.settled()
        sending.begin(4, "s")
        for number in range(kills):
            kind = FAULTS[number % len(FAULTS)]
            gap = await fault(group, sending, kind)
            gaps[kind].append(gap)
            print(f"{number + 1}/{kills} {kind}: {gap * 1000:.0f} ms, {len(ledger.acked)} acknowledged", flush=True)
        await sending.end()
        return gaps, len(ledger.acked), await judge(group, ledger)
    finally:
        await group.stop()


def main(kills: int) -> int:
    """1 if an acknowledged message is lost."""
    with tempfile.TemporaryDirectory() as folder:
        gaps, acknowledged, lost = asyncio.run(play(Path(folder), kills))
    report(gaps, acknowledged, len(lost))
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
