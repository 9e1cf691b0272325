"""Messages for a time beside Apache 5.5.0: in and out a second, lateness of 100,000 in a second, memory of what waits.

All of 1 KiB, sent by bench/generator.py. Lateness is the time from the due time to the store of the copy. Ticks are of
100 ms there (timerPrecisionMs), on both sides, with 10,000 messages in each, due at its end. The rest is measured with
the default tick, a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import wire
from bench.brokers import Side
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_until

PROGRAM = Path(__file__).resolve().parents[1] / "python_clients" / "store_times.py"
FLOW, BURST, WAITING = "TimerFlow1", "TimerBurst1", "TimerWait1"
QUEUES = 8
WINDOW = 256
DUE_IN_A_SECOND = 100_000
TICK_MS = 100
DELAY_MS = 2000
TIMEOUT = 240


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root / "default") as side:
        values = started_values(side)
        for topic in (FLOW, WAITING):
            wire.create_topic(side.broker, side.namesrv, topic, QUEUES)
        say(f"{kind.name}: messages in and out, {plan.seconds:.0f} s")
        values |= _flow(side, plan)
        say(f"{kind.name}: memory of what waits")
        values |= _waiting(side, plan)
    with kind(root / "ticks", {"timerPrecisionMs": TICK_MS}) as side:
        wire.create_topic(side.broker, side.namesrv, BURST, QUEUES)
        say(f"{kind.name}: {DUE_IN_A_SECOND} due within a second")
        return values | _burst(side)


def _flow(side: Side, plan: Plan) -> Values:
    """Sent as fast as it goes, due two seconds later: what comes out meanwhile."""
    options = ("--window", str(WINDOW), "--warm", str(plan.warm), "--seconds", str(plan.seconds))
    with _generator(side, FLOW, f"TIMER_DELAY_MS={DELAY_MS}", *options) as generator:
        wait_until(lambda: wire.messages_of(side.broker, FLOW) > 0, "the first copies", pause=0.1)
        time.sleep(plan.warm)
        before = wire.messages_of(side.broker, FLOW)
        window = Window(side)
        time.sleep(max(1.0, plan.seconds - DELAY_MS / 1000 - 1))
        values = window.close(max(1, wire.messages_of(side.broker, FLOW) - before))
        sent = json.loads(generator.communicate(timeout=TIMEOUT)[0].splitlines()[-1])
    values["out_per_second"] = values.pop("messages_per_second")
    values["in_per_second"] = sent["sends_per_second"]
    return values


def _burst(side: Side) -> Values:
    due_ms = (int(time.time()) + 60) * 1000
    each, taken = DUE_IN_A_SECOND * TICK_MS // 1000, 0
    for due in range(due_ms, due_ms + 1000, TICK_MS):
        options = ("--window", str(WINDOW), "--warm", "0", "--seconds", "30", "--messages", str(each))
        with _generator(side, BURST, f"TIMER_DELIVER_MS={due}", *options) as generator:
            sent = json.loads(generator.communicate(timeout=TIMEOUT)[0].splitlines()[-1])
        taken += sent["messages"] - sent["unanswered"]
    if time.time() * 1000 >= due_ms or taken < 0.9 * DUE_IN_A_SECOND:
        raise RuntimeError(f"of {DUE_IN_A_SECOND} messages {taken} were taken within 60 s")
    wait_until(lambda: wire.messages_of(side.broker, BURST) >= taken, "the burst", 150, pause=0.5)
    command = [sys.executable, str(PROGRAM), side.namesrv, BURST, str(taken)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(f"{PROGRAM.name} failed: {(done.stdout + done.stderr)[-1500:]}")
    return {"due": float(taken)} | {
        name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()
    }


def _waiting(side: Side, plan: Plan) -> Values:
    """Anonymous memory before and behind, scaled to ten million."""
    before = side.memory_mb()["anonymous"]
    options = ("--window", str(WINDOW), "--warm", "0", "--seconds", str(plan.seconds))
    with _generator(side, WAITING, "TIMER_DELAY_SEC=36000", *options) as generator:
        sent = json.loads(generator.communicate(timeout=TIMEOUT)[0].splitlines()[-1])
    time.sleep(2)
    more = max(0.0, side.memory_mb()["anonymous"] - before)
    return {
        "waiting": float(sent["messages"]),
        "waiting_mb": more,
        "waiting_mb_10m": round(more * 10_000_000 / sent["messages"], 1),
        "after_mb": before + more,
    }


def _generator(side: Side, topic: str, asked: str, *options: str) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "bench.generator", side.broker, "--topic", topic, "--queues", f"0-{QUEUES - 1}"]
    return subprocess.Popen([*command, "--property", asked, *options], stdout=subprocess.PIPE, text=True)


LOADS = (
    Load(
        "timer",
        "Messages for a time, beside Apache 5.5.0",
        (
            Figure("in_per_second", "timer messages in/s", must=1, aim=2),
            Figure("out_per_second", "timer messages out/s", must=1, aim=2),
            Figure("broker_cpu_us", "broker CPU, us/message in and out", better="lower"),
            Figure("late_p50_ms", "100,000 due in a second: p50 late, ms", better="lower"),
            Figure("late_p99_ms", "100,000 due in a second: p99 late, ms", 100, 20, "lower", "ours"),
            Figure("waiting_mb_10m", "memory of 10 million that wait (scaled), MB", 200, 80, "lower", "ours"),
        ),
        run,
    ),
)
