"""The round trip of a request and its answer on Apache's broker: Java's client beside ours.

Each side asks and answers in one process, one request of 1 KiB after the other. The column "Apache" is Java's client,
"RocketLake" is ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import wire
from bench.brokers import Apache
from bench.java import PEER
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from interop.apache import run_driver

PROGRAM = Path(__file__).resolve().parents[1] / "python_clients" / "round_trips.py"
TOPIC, QUEUES = "BenchRequests", 4


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    is_java = kind is Apache
    warm, seconds = plan.warm / 2, plan.seconds / 2
    with Apache(root / "broker") as side:
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
        say(f"{'the Java client' if is_java else 'our client'}: one request after the other")
        if is_java:
            millis = int(warm * 1000), int(seconds * 1000)
            found = run_driver("RequestRate", side.namesrv, TOPIC, *millis, peer=PEER, serialize_type="ROCKETMQ")
        else:
            command = [sys.executable, str(PROGRAM), side.namesrv, TOPIC, str(warm), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=180)
            if done.returncode:
                raise RuntimeError(f"{PROGRAM.name} failed: {(done.stdout + done.stderr)[-1500:]}")
            found = json.loads(done.stdout.splitlines()[-1])
    return {name: float(value) for name, value in found.items()}


LOADS = (
    Load(
        "request-reply",
        "Requests on Apache's broker, one after the other (Java's client)",
        (
            Figure("p50_us", "round trip, p50, us", better="lower"),
            Figure("p99_us", "round trip, p99, us", better="lower"),
        ),
        run,
    ),
)
