"""A real group under load, its parts killed, stopped, cut off, filled, again and again: `make failovers KILLS=200`.

After each fault the longest time without an acknowledged message is measured. At the end each acknowledged message
must be where its acknowledgement said, and each row of a producer that repeats itself must be there once.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.__main__ import machine, result_path
from tests.crash.broker_process import Ledger, Reader
from tests.crash.failover_kinds import KINDS, NEED_DISKS
from tests.crash.group_processes import GroupProcesses
from tests.crash.sending import Repeater, Sending
from tests.crash.witness import Witness

_WAIT_SECONDS = 30


@dataclass
class Outcome:
    """What a run came to."""

    etcd: str
    """Its release."""
    gaps: dict[str, list[float]] = field(default_factory=dict)
    """Seconds, by the kind of the fault."""
    acknowledged: int = 0
    repeated: int = 0
    """Batches that were sent again."""
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What is stored twice, or in another order."""


async def fault(group: GroupProcesses, sending: Sending, kind: str) -> float:
    """Let it happen under load; the gap that senders saw, in seconds. All three are in step afterwards."""
    master = await group.settled()
    await asyncio.sleep(random.uniform(0.1, 0.3))
    start = asyncio.get_running_loop().time()
    async with KINDS[kind](group, master):
        await asyncio.wait_for(sending.goes_on(200), _WAIT_SECONDS)
        await asyncio.sleep(0.3)
        gap = sending.gap_since(start)
    await group.settled()
    return gap


async def play(folder: Path, kinds: Sequence[str]) -> Outcome:
    """These faults, one after the other."""
    group = GroupProcesses(folder)
    try:
        async with Witness(group) as witness:
            return await _play(group, witness, kinds)
    finally:
        await group.stop()


async def _play(group: GroupProcesses, witness: Witness, kinds: Sequence[str]) -> Outcome:
    outcome, ledger = Outcome(group.etcd.release), Ledger()
    await group.start()
    addresses = [each.address for each in group.brokers]
    sending, repeater, ended = Sending(addresses, ledger), Repeater(addresses, "query/0"), asyncio.Event()
    witness.answers = sending.answers
    await group.settled()
    sending.begin(4, "s")
    repeating = asyncio.create_task(repeater.run(ended))
    for number, kind in enumerate(kinds):
        if kind in NEED_DISKS and not group.has_disks:
            continue
        witness.doing = kind
        print(f"{number + 1}/{len(kinds)} {kind}:", end=" ", flush=True)
        gap = await fault(group, sending, kind)
        outcome.gaps.setdefault(kind, []).append(gap)
        print(f"{gap * 1000:.0f} ms, {len(ledger.acked)} acknowledged", flush=True)
    witness.doing = "end"
    await sending.end()
    ended.set()
    await asyncio.wait_for(repeating, _WAIT_SECONDS)
    master = await group.settled()
    await asyncio.sleep(0.5)
    reader = Reader(master.address, ledger)
    await reader.read_new()
    outcome.acknowledged, outcome.lost = len(ledger.acked), reader.lost()
    outcome.repeated, outcome.wrong = repeater.replays, await repeater.wrong(master.address)
    return outcome


def report(outcome: Outcome) -> None:
    """Print the quantiles; keep all gaps, and the machine, in bench/results/DATE-failovers.json."""
    figures = {kind: sorted(round(gap * 1000) for gap in found) for kind, found in outcome.gaps.items()}
    for kind, found in figures.items():
        print(f"{kind}: p50 {statistics.median(found):.0f} ms, most {found[-1]} ms of {len(found)}")
    print(f"{len(outcome.lost)} of {outcome.acknowledged} acknowledged messages are lost")
    print(f"{outcome.repeated} batches were sent again: {outcome.wrong or 'each row is stored once'}")
    print(f"etcd {outcome.etcd}")
    target = result_path("failovers")
    kept = {"machine": machine(), "etcd": outcome.etcd, "gap_ms": figures}
    kept |= {"acknowledged": outcome.acknowledged, "lost": len(outcome.lost), "sent_again": outcome.repeated}
    target.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"written: {target}; a picture of it: python -m bench.picture {target}")


def main(count: int, only: Sequence[str]) -> int:
    """1 if an acknowledged message is lost, or a repeated one is there twice."""
    kinds = list(only or KINDS)
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(play(Path(folder), [kinds[number % len(kinds)] for number in range(count)]))
    report(outcome)
    return bool(outcome.lost or outcome.wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
