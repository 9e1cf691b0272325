"""Apache's official Python client and ours, one process each, both against Apache's broker.

The official one speaks gRPC and needs Apache's proxy between itself and the broker; ours speaks remoting to the broker
itself. Both keep 256 sends of 1 KiB outstanding; both consume with their push consumer and its default settings. The
column "Apache" is the official client, "RocketLake" is ours; the CPU is that of the client process.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from bench import wire
from bench.brokers import Apache
from bench.loads.backlog import fill
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from interop.apache_proxy import ApacheProxy, official_python

PROGRAMS = Path(__file__).resolve().parents[1] / "python_clients"
TOPIC, QUEUES = "BenchPython", 8


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier, *, work: str) -> Values:
    official = kind is Apache
    with Apache(root / "broker") as side, contextlib.ExitStack() as peers:
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
        # The backlog of the consumer; for the sender it only warms up the broker's JVM.
        fill(side, plan.python_messages if work == "consume" else plan.python_messages // 4, TOPIC)
        if official:
            python, program = str(official_python()), "official.py"
            address = peers.enter_context(ApacheProxy(root / "proxy", side.namesrv)).endpoint
        else:
            python, program, address = sys.executable, "ours.py", side.namesrv
        # The proxy's JVM must warm up; our consumer has no JVM and would be through with the backlog by then.
        warm, seconds = plan.warm / 2, plan.seconds / 2
        if work == "consume" and not official:
            warm = 1.0
        say(f"{'the official client' if official else 'our client'}: {work}")
        command = [python, str(PROGRAMS / program), work, address, TOPIC, str(warm), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"{program} failed: {(done.stdout + done.stderr)[-1500:]}")
    return {name: round(value, 2) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def figures(what: str) -> tuple[Figure, ...]:
    return (
        Figure("messages_per_second", what, 5, 10),
        Figure("client_cpu_us", "client CPU, us/message", better="lower"),
    )


LOADS = (
    Load(
        "python-send",
        "Python client on Apache's broker, async send of 1 KiB (official over the proxy)",
        figures("sends/s"),
        partial(run, work="send"),
    ),
    Load(
        "python-consume",
        "Python client on Apache's broker, consume 1 KiB (official over the proxy)",
        figures("messages/s"),
        partial(run, work="consume"),
    ),
)
