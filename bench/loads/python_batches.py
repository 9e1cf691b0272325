"""One Python process that sends 1 KiB in background batches: Confluent's client of Kafka beside ours.

Each side has its own broker on this machine. The column "Apache" is confluent-kafka (librdkafka, in C) on Kafka,
"RocketLake" is our client on our broker; both with their default settings, but for `auto_batch`. The CPU is that of the
client process. Counted are acknowledged messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import wire
from bench.brokers import Apache, RocketLake
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from interop.apache_proxy import python_with
from interop.kafka import KafkaBroker

PROGRAMS = Path(__file__).resolve().parents[1] / "python_clients"
CLIENT = "confluent-kafka==2.16.1"
TOPIC, QUEUES = "BenchPythonBatches", 8


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    times = [str(plan.warm / 2), str(plan.seconds)]
    if kind is Apache:
        with KafkaBroker(root / "kafka") as kafka:
            say("confluent-kafka on Kafka")
            python = str(python_with(CLIENT, "python-kafka"))
            return _figures_of([python, str(PROGRAMS / "kafka.py"), kafka.servers, TOPIC, *times])
    with RocketLake(root / "broker") as side:
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
        say("our client on our broker")
        return _figures_of([sys.executable, str(PROGRAMS / "ours.py"), "batches", side.namesrv, TOPIC, *times])


def _figures_of(command: list[str]) -> Values:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"{command[1]} failed: {(done.stdout + done.stderr)[-1500:]}")
    return {name: round(value, 2) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


LOADS = (
    Load(
        "python-batches",
        "Python client, one process, background batches, 1 KiB (confluent-kafka on Kafka)",
        (
            Figure("messages_per_second", "sends/s", 0.5, 1),
            Figure("client_cpu_us", "client CPU, us/message", better="lower"),
        ),
        run,
    ),
)
