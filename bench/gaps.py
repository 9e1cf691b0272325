"""`python -m bench.gaps`: how long a producer waits when a broker of its group goes, Apache's group and ours by turns.

Owns        the producer of 1,000 messages a second, the faults, the audit of what was acknowledged.
Must not know   how a group finds its new master.

Groups of three with a controller, each with what keeps every acknowledged message: all replicas in step have it. The
producer asks no name server: it tries the brokers one after the other until one takes its messages, so a gap is the
group's own. At the end each acknowledged message must be where its acknowledgement said. Writes
bench/results/<date>-gaps.json, and a picture of the gaps beside it (bench/picture.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.__main__ import machine, result_path
from bench.groups import GROUPS, Group, Replica
from bench.picture import draw
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import Ledger, Load, Reader

FAULTS = ("kill", "stop", "hand over", "kill a slave")
SAFE: dict[str, dict[str, object]] = {
    "apache": {"allAckInSyncStateSet": "true", "minInSyncReplicas": 2, "inSyncReplicas": 2},
    "rocketlake": {},
}
PER_SECOND = 1000
UNDER_WAY_MAX = 4000
TIMEOUT_MS = 3000
DOUBT_SECONDS = 0.5
"""So long a producer waits for an answer before it tries another broker; the answer counts when it comes."""
PAUSE_SECONDS = 0.005


class Producer:
    """Sends at its rate to whatever broker takes its messages; notes when each was acknowledged."""

    def __init__(self, addresses: Sequence[str], ledger: Ledger) -> None:
        self._addresses = addresses
        self._ledger = ledger
        self._load = Load("", ledger)
        self._net = NetClient(clock=SystemClock())
        self._at = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._count = 0
        self.acked_at: list[float] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                if len(self._under_way) < UNDER_WAY_MAX:
                    task = loop.create_task(self._send(self._count))
                    self._under_way.add(task)
                    task.add_done_callback(self._under_way.discard)
                    self._count += 1
                due = max(due + 1 / PER_SECOND, loop.time() - 0.1)
                await asyncio.sleep(max(0.0, due - loop.time()))
        finally:
            await asyncio.gather(*self._under_way)
            await self._net.close()

    async def _send(self, number: int) -> None:
        at, identity = self._at, f"m-{number}"
        self._ledger.tried.add(identity)
        address = self._addresses[at % len(self._addresses)]
        doubt = asyncio.get_running_loop().call_later(DOUBT_SECONDS, self._go_on, at)
        try:
            answer = await self._net.invoke(address, self._load._command(identity, number), TIMEOUT_MS)
            is_stored = answer.code == ResponseCode.SUCCESS
        except RocketLakeError:
            is_stored = False
        doubt.cancel()
        if is_stored:
            reply = answer.header(SendReplyHeader)
            self._ledger.acked[identity] = (reply.queue_id, reply.queue_offset)
            self.acked_at.append(asyncio.get_running_loop().time())
        elif self._at == at:
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._go_on, at)

    def _go_on(self, at: int) -> None:
        """All that are sent from now on go to the next broker."""
        if self._at == at:
            self._at = at + 1

    async def goes_on(self, start: float, count: int = 200, seconds: float = 60) -> bool:
        """True when so many were acknowledged behind `start`, the last just now; False: not in this time."""
        loop = asyncio.get_running_loop()
        while len(self.acked_at) < count or self.acked_at[-count] < start or loop.time() - self.acked_at[-1] > 0.2:
            if loop.time() - start > seconds:
                return False
            await asyncio.sleep(0.05)
        return True

    def gap_since(self, start: float) -> float:
        """The longest time without an acknowledgement behind `start`, seconds."""
        times = [start, *(at for at in self.acked_at if at >= start)]
        now = asyncio.get_running_loop().time()
        times.append(now if now - times[-1] > 1 else times[-1])  # it has not ended
        return max(later - earlier for earlier, later in pairwise(times))


async def fault(group: Group, producer: Producer, kind: str) -> float:
    """Let it happen under load; the gap in seconds. All three are in step again afterwards."""
    master = await aside(group.in_step, 3)
    await asyncio.sleep(1)
    start = asyncio.get_running_loop().time()
    victim = master if kind != "kill a slave" else next(each for each in group.brokers if each is not master)
    ended = None
    if kind == "stop":
        victim.hang()
    elif kind == "hand over":
        ended = asyncio.create_task(aside(victim.stop))
    else:
        victim.kill()
    await asyncio.sleep(0.3)
    await producer.goes_on(start)
    await watch_a_slave(group, producer, kind, start)
    gap = producer.gap_since(start)
    if kind == "stop":
        victim.go_on()
    else:
        if ended is not None:
            await ended
        victim.start()
    return gap


async def watch_a_slave(group: Group, producer: Producer, kind: str, start: float) -> None:
    """A dead slave may be noticed late: acks stall once more when it is."""
    if kind == "kill a slave":
        await asyncio.sleep(2)
        await producer.goes_on(start)


async def aside(call: Any, *arguments: Any) -> Any:
    """A call that blocks."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)


async def play(group: Group, times: dict[str, int]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The gaps in ms by fault, and the audit."""
    for _ in range(3):
        group.broker(**SAFE[group.name]).start()
    await aside(group.in_step, 3)
    ledger = Ledger()
    producer = Producer([broker.address for broker in group.brokers], ledger)
    task = asyncio.create_task(producer.run())
    await producer.goes_on(asyncio.get_running_loop().time(), 3 * PER_SECOND)  # Java is slow at first
    gaps: dict[str, list[int]] = {kind: [] for kind in times}
    for number in range(max(times.values())):
        for kind in (kind for kind, count in times.items() if number < count):
            gap = await fault(group, producer, kind)
            gaps[kind].append(round(gap * 1000))
            print(f"  {group.name}, {kind}: {gap * 1000:.0f} ms, {len(ledger.acked)} acknowledged", flush=True)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    lost = await audit(await aside(group.in_step, 3), ledger)
    print(f"  {group.name}: {lost} of {len(ledger.acked)} acknowledged messages are lost", flush=True)
    return gaps, {"tried": len(ledger.tried), "acknowledged": len(ledger.acked), "lost": lost}


async def audit(master: Replica, ledger: Ledger) -> int:
    """How many acknowledged messages are not where they should be."""
    await asyncio.sleep(1)
    reader = Reader(master.address, ledger)
    await reader.read_new()
    return len(reader.lost())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gaps")
    parser.add_argument("--kill", type=int, default=3, help="how often the master is killed (-9)")
    parser.add_argument("--stop", type=int, default=3, help="... stopped (SIGSTOP)")
    parser.add_argument("--hand-over", type=int, default=3, help="... asked to end")
    parser.add_argument("--kill-a-slave", type=int, default=3, help="how often a slave is killed (-9)")
    parser.add_argument("--only", default="", help="one side: apache or rocketlake")
    options = parser.parse_args()
    times = {kind: getattr(options, kind.replace(" ", "_")) for kind in FAULTS}
    kinds = [kind for kind in GROUPS if options.only in ("", kind.name)]
    result: dict[str, Any] = {"machine": machine(), "settings": SAFE, "gap_ms": {}, "audit": {}}
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-gaps-"))
    try:
        for kind in kinds:
            with kind(folder / kind.name) as group:
                gaps, audited = asyncio.run(play(group, times))
            result["gap_ms"][kind.name] = {name: sorted(found) for name, found in gaps.items() if found}
            result["audit"][kind.name] = audited
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for side, found in result["gap_ms"].items():
        for name, values in found.items():
            print(f"{side}, {name}: p50 {statistics.median(values):.0f} ms, longest {values[-1]} ms of {len(values)}")
    target = result_path("gaps")
    target.write_text(json.dumps(result) + "\n")
    target.with_suffix(".svg").write_text(draw(result["gap_ms"]))
    print(f"written: {target} and its picture")


if __name__ == "__main__":
    main()
