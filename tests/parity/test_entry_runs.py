"""Messages that enter the timer wheel in runs and one by one: the same wheel and timer log, byte for byte."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.pure_import import has_kernel
from rocketlake.codec import property_text
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.results import PutMessage, PutStatus
from tests.histories.timer_history import ROOT, Broker
from tests.seeds import seeds

if not has_kernel("rocketlake.broker.delay.entry_run"):
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

START_MS = 1_700_000_000_000
ODD = (
    "", "TIMER_OUT_MS\x01x\x02", "TIMER_OUT_MS\x01", "TIMER_OUT_MS\x01-5\x02", "TIMER_OUT_MS\x01" + "9" * 18 + "\x02",
    "TIMER_OUT_MS\x01" + "9" * 19 + "\x02", "TIMER_OUT_MS\x011\x02REAL_TOPIC\x01T", "a\x01b", "\x01b\x02a\x01\x02",
    f"TIMER_OUT_MS\x01{START_MS + 5000}\x02REAL_TOPIC\x01\u00e9\x02", f"TIMER_OUT_MS\x01{START_MS + 5000}\x02\x02x",
    f"TIMER_OUT_MS\x01{START_MS + 5000}\x02TIMER_OUT_MS\x01{START_MS + 6000}\x02REAL_TOPIC\x01a\x01b",
    f"TIMER_OUT_MS\x01{START_MS + 5000}\x02TIMER_OUT_MS\x01\x02TIMER_DEL_UNIQKEY\x01\x02REAL_TOPIC\x01T\x02",
    f"TIMER_OUT_MS\x01{START_MS + 5000}\x02TIMER_DEL_UNIQKEY\x01k\x02",
    f"REAL_TOPIC\x01T\x02TIMER_OUT_MS\x01{START_MS}",
)  # fmt: skip


async def started(*, in_runs: bool) -> Broker:
    clock = ManualClock(START_MS)
    broker = Broker(MemoryFiles(clock=clock), clock)
    if not in_runs:
        broker.timer.entries = None
    await broker.start()
    await clock.settle()
    return broker


def put(broker: Broker, text: str, topic: str = TIMER_TOPIC) -> None:
    message = PutMessage(topic, 0, b"body", properties=text.encode())
    assert broker.store.put(message).status is PutStatus.OK


def send(broker: Broker, rng: random.Random) -> None:
    """Messages of many kinds."""
    now = broker.clock.now_ms()
    for number in range(rng.choice((1, 5, 60))):
        delay = rng.choice((1, 300, 1500, 2500, 15_000, 20_500, 26_000, 27_500, 60_000))
        asked = {"TIMER_DELIVER_MS": str(now + delay)}
        asked |= rng.choice(({}, {"TAGS": "A"}, {"own": "\u00e9"}, {"UNIQ_KEY": ""}))
        if rng.random() < 0.1:
            asked |= {"TIMER_DEL_UNIQKEY": f"m{number}"}
        broker.send(f"m{number}", asked, rng.choice((0, 1, 2)), topic=rng.choice(("T", "T", "unknown", "%RETRY%g")))
        if rng.random() < 0.05:
            put(broker, rng.choice(ODD))


def files(broker: Broker) -> dict[str, bytes]:
    names = [f"timerlog/{name}" for name in sorted(broker.disk.list_dir(ROOT / "timerlog"))] + ["timerwheel"]
    return {name: broker.disk.read_bytes(ROOT / name) for name in names}


@pytest.mark.parametrize("seed", seeds("entry-runs", short=6, whole=30))
async def test_runs_and_single_messages_make_the_same_wheel(seed: int) -> None:
    """Also where ticks are late, and where the master before has delivered some."""
    found = []
    for in_runs in (True, False):
        rng = random.Random(seed)
        broker = await started(in_runs=in_runs)
        broker.timer._delivered_until = (rng.choice((0, 40)), START_MS + rng.choice((0, 3000)))
        for _ in range(12):
            send(broker, rng)
            if rng.random() < 0.7:
                await broker.clock.settle()
            await broker.clock.run_for(rng.choice((0, 0, 400, 1000, 3000)))
        await broker.clock.settle()
        found.append((files(broker), broker.timer.wheel.queue_offset))
        assert broker.timer.wheel.queue_offset == broker.store.max_offset(TIMER_TOPIC, 0) > 0
        await broker.stop()
    assert found[0] == found[1]


@pytest.mark.parametrize("text", ODD)
async def test_each_odd_message(text: str) -> None:
    found = []
    for in_runs in (True, False):
        broker = await started(in_runs=in_runs)
        broker.send("first", {"TIMER_DELAY_MS": "2500"})
        put(broker, text)
        broker.send("last", {"TIMER_DELAY_MS": "2500"})
        await broker.clock.settle()
        found.append((files(broker), broker.timer.wheel.queue_offset))
        await broker.stop()
    assert found[0] == found[1]
    assert found[0][1] == 3


async def test_plain_messages_take_the_run() -> None:
    broker = await started(in_runs=True)
    inner, taken = broker.timer.entries, []
    assert inner is not None

    class Counted:
        def cut(self, *args: Any) -> Any:
            run, count = inner.cut(*args)
            taken.append((run.count, count))
            return run, count

    broker.timer.entries = Counted()
    for number in range(300):
        broker.send(f"m{number}", {"TIMER_DELAY_MS": "1500", "TAGS": "A"}, number % 3)
    put(broker, property_text.encode({"UNIQ_KEY": "x"}).decode())
    await broker.clock.settle()
    assert taken[0] == (300, 300)
    assert taken[1:] == [(0, 0)]
    await broker.stop()
