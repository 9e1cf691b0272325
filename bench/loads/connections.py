"""Memory with many connections: a thousand that only stand, then some that ask for messages and never read."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

from bench import wire
from bench.loads.backlog import fill
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import started_values

PULL_MESSAGE = 11
PULLS_EACH, MESSAGES_EACH, UNREAD_SHARE = 200, 32, 20
"""Every 20th connection asks 200 times for 32 messages of 1 KiB: 8 MB each that it does not read."""
SETTLE_SECONDS = 5
TOPIC = "bench1"


def pulls() -> bytes:
    """The requests of one consumer that will not read, one after the other."""
    fields = {"consumerGroup": "bench_unread", "topic": TOPIC, "queueId": "0", "queueOffset": "0", "sysFlag": "4"}
    fields |= {"maxMsgNums": str(MESSAGES_EACH), "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    fields |= {"subscription": "*", "expressionType": "TAG"}
    return b"".join(wire.frame(PULL_MESSAGE, fields, opaque=number) for number in range(PULLS_EACH))


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side, contextlib.ExitStack() as links:
        wire.create_topic(side.broker, side.namesrv, TOPIC, 1)
        fill(side, 10_000, TOPIC)
        values = started_values(side)
        before = side.memory_mb()["anonymous"]
        opened = [links.enter_context(wire.connect(side.broker)) for _ in range(plan.connections)]
        say(f"{kind.name}: {len(opened)} connections")
        time.sleep(SETTLE_SECONDS)
        values["connections_mb"] = round(side.memory_mb()["anonymous"] - before, 1)
        asking, request = opened[::UNREAD_SHARE], pulls()
        say(f"{kind.name}: {len(asking)} of them ask for {len(asking) * PULLS_EACH * MESSAGES_EACH:,} messages unread")
        for link in asking:
            link.setblocking(False)
            send_what_fits(link, request)
        time.sleep(SETTLE_SECONDS)
        values["unread_mb"] = round(side.memory_mb()["anonymous"] - before - values["connections_mb"], 1)
        values["asked_mb"] = round(len(asking) * PULLS_EACH * MESSAGES_EACH * 1.13e-3, 1)
        began = time.monotonic()
        values["send_then_ms"] = round(wire.seconds_to_first_send(side.broker, began) * 1000, 2)
    return values


def send_what_fits(link: socket.socket, request: bytes) -> None:
    with contextlib.suppress(BlockingIOError):
        link.send(request)


LOADS = (
    Load(
        "connections",
        "Connections that stand, and consumers that do not read",
        (
            Figure("connections_mb", "memory of the connections, MB", better="lower"),
            Figure("unread_mb", "memory of what is not read, MB", better="lower"),
            Figure("asked_mb", "asked for and not read, MB"),
            Figure("send_then_ms", "one send then, ms", better="lower"),
        ),
        run,
    ),
)
