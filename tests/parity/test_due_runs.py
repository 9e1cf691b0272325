"""Copies of due messages, made in runs and one by one: the same log, byte for byte."""

from __future__ import annotations

import random

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.pure_import import has_kernel
from rocketlake.model import sys_flag
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.timer.unit_stack import UnitStack
from tests.histories.timer_history import ROOT, Broker
from tests.seeds import seeds

if not has_kernel("rocketlake.broker.delay.due_run"):
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

START_MS = 1_700_000_000_000
HOSTS = (b"\x7f\0\0\x01\0\0\0\0", b"\x0a\0\0\x02\0\0\x1f\x90", bytes(range(20)))


async def started(*, in_runs: bool) -> Broker:
    clock = ManualClock(START_MS)
    broker = Broker(MemoryFiles(clock=clock), clock)
    if not in_runs:
        broker.timer.runs = None
    await broker.start()
    await clock.settle()
    return broker


def send(broker: Broker, seed: int) -> None:
    """Messages of many kinds, most of them plain; the same ones for a seed."""
    rng = random.Random(seed)
    for number in range(120):
        asked = {"TIMER_DELIVER_MS": str(START_MS + rng.choice((1500, 2400, 2500, 3000)))}
        asked |= rng.choice(({}, {"TAGS": "A"}, {"KEYS": "k1 k2"}, {"TAGS": "B", "KEYS": f"{number}", "own": "x"}))
        if rng.random() < 0.1:
            asked |= rng.choice(({"UNIQ_KEY": ""}, {"own": "\u00e9"}, {"WAIT": "false"}, {"BUYER_ID": "7"}))
        if rng.random() < 0.05:
            asked["TIMER_DELIVER_MS"] = str(START_MS + 25_000)
        if rng.random() < 0.05:
            asked |= {"TIMER_DEL_UNIQKEY": f"m{rng.randrange(120)}"}
        body = f"m{number}".encode() * rng.choice((1, 1, 1, 300))
        flags = sys_flag.mark_compressed(0, sys_flag.ZLIB) if rng.random() < 0.05 else 0
        topic, host = rng.choice(("T", "T", "T", "T", "unknown", "%RETRY%g")), rng.choice(HOSTS)
        flags |= sys_flag.BORN_HOST_V6 if len(host) > 8 else 0
        queue = rng.choice((0, 1, 2, 2, 7))
        broker.send(f"m{number}", asked, queue, topic=topic, body=body, sys_flag=flags, born_host=host)


def log_of(broker: Broker) -> bytes:
    broker.store.sync_soon()
    names = broker.disk.list_dir(ROOT / "commitlog")
    return b"".join(broker.disk.read_bytes(ROOT / "commitlog" / name) for name in sorted(names))


@pytest.mark.parametrize("seed", seeds("due-runs", short=6, whole=30))
async def test_runs_and_single_copies_make_the_same_log(seed: int) -> None:
    logs = []
    for in_runs in (True, False):
        broker = await started(in_runs=in_runs)
        send(broker, seed)
        await broker.clock.run_for(30_000)
        copies = [message for message in broker.delivered() if message.topic != TIMER_TOPIC]
        assert len(copies) > 30
        logs.append(log_of(broker))
        await broker.stop()
    assert logs[0] == logs[1]


async def test_plain_copies_take_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await started(in_runs=True)
    runs = broker.timer.runs
    assert runs is not None
    stored: list[int] = []

    def put(units: UnitStack, above: int, taken_back: frozenset[bytes]) -> int:
        before = len(units)
        end = inner(units, above, taken_back)
        stored.append(before - len(units))
        return end

    inner = runs.put
    monkeypatch.setattr(runs, "put", put)
    for number in range(700):
        host = HOSTS[number // 3 % 2]
        broker.send(f"m{number}", {"TIMER_DELAY_MS": "1500", "TAGS": "A"}, number % 3, born_host=host)
    await broker.clock.run_for(5000)
    assert [message.body for message in broker.delivered() if message.queue_id == 0] == [
        b"m%d" % number for number in range(0, 700, 3)
    ]
    assert sum(stored) > 500, "the rest lies where a file of the log ends"
    stored.clear()
    for number in range(60):
        broker.send(f"far{number}", {"TIMER_DELAY_MS": "26000"}, number % 3)
    await broker.clock.run_for(30_000)
    assert len([message for message in broker.delivered() if message.body.startswith(b"far")]) == 60
    assert sum(stored) == 120, "each is stored anew in between"
    await broker.stop()
