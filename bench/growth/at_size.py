"""The same sends beside 1x and 10x of something: queues, topics, groups, connections, stored bytes.

Owns        how each of them is made, and the figures: making one more, a send, an idle second, memory, a restart.
Must not know   what is allowed to grow.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import wire
from bench.brokers import RocketLake
from bench.growth.over_time import generated
from bench.loads.backlog import fill
from bench.plan import Values, say
from bench.window import Window, wait_for_sends

HEART_BEAT = 34
IS_ONEWAY = 2
GROUPS_EACH = 50
SEND_SECONDS = IDLE_SECONDS = 10.0
RECORD_BYTES = 1130


@dataclass(frozen=True, slots=True)
class Growing:
    """`make` adds things number `first` to `last - 1`; `unit` is the count of 1x."""

    name: str
    unit: int
    make: Callable[[RocketLake, contextlib.ExitStack, int, int], None]


def queues(side: RocketLake, _links: contextlib.ExitStack, first: int, last: int) -> None:
    """Queues of other topics, 100 to a topic, one message in each."""
    for number in range(first // 100, last // 100):
        _topic(side, f"queues{number}", 100)
        for queue in range(100):
            _send_one(side, f"queues{number}", queue)


def topics(side: RocketLake, _links: contextlib.ExitStack, first: int, last: int) -> None:
    """Topics of one queue."""
    for number in range(first, last):
        _topic(side, f"topic{number}", 1)


def groups(side: RocketLake, links: contextlib.ExitStack, first: int, last: int) -> None:
    """Consumer groups with one member each, whose link stays."""
    for start in range(first, last, GROUPS_EACH):
        link = links.enter_context(wire.connect(side.broker))
        numbers = range(start, min(last, start + GROUPS_EACH))
        link.sendall(wire.frame(HEART_BEAT, {}, _heartbeat(f"client{start}", [f"group{number}" for number in numbers])))
        header, _body = wire.receive_frame(link)
        while header["flag"] & IS_ONEWAY:  # the broker tells members of each other meanwhile
            header, _body = wire.receive_frame(link)
        if header["code"]:
            raise RuntimeError(f"the heartbeat was refused: {header}")


def connections(side: RocketLake, links: contextlib.ExitStack, first: int, last: int) -> None:
    """Links that stand and say nothing."""
    for _number in range(first, last):
        links.enter_context(wire.connect(side.broker))


def stored(side: RocketLake, _links: contextlib.ExitStack, first: int, last: int) -> None:
    """Megabytes of messages of 1 KiB."""
    fill(side, (last - first) * 1_000_000 // RECORD_BYTES)


ALL = (
    Growing("queues", 1_000, queues),
    Growing("topics", 1_000, topics),
    Growing("groups", 1_000, groups),
    Growing("connections", 500, connections),
    Growing("stored-mb", 300, stored),
)


def run(growing: Growing, root: Path) -> list[Values]:
    """Figures at 1x and at 10x, on one broker."""
    found = []
    with RocketLake(root) as side, contextlib.ExitStack() as links:
        made = 0
        for times in (1, 10):
            values = _make(growing, side, links, made, times * growing.unit)
            made = times * growing.unit
            values |= _measure(side)
            say(f"{growing.name} {made:,}: " + ", ".join(f"{name} {value:g}" for name, value in values.items()))
            found.append(values)
        links.close()
        side.kill_broker()
        side.start_broker()
        found[-1]["restart_seconds"] = round(side.start_seconds, 2)
    return found


def _make(growing: Growing, side: RocketLake, links: contextlib.ExitStack, first: int, last: int) -> Values:
    """Make them; what the last hundred of them cost the broker, each."""
    tail = max(first, last - max(100, growing.unit // 10))
    growing.make(side, links, first, tail)
    time.sleep(1)
    before = side.cpu_seconds()
    growing.make(side, links, tail, last)
    time.sleep(1)
    return {"make_one_us": round((side.cpu_seconds() - before) * 1e6 / (last - tail), 1)}


def _measure(side: RocketLake) -> Values:
    before = side.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    idle = (side.cpu_seconds() - before) / IDLE_SECONDS
    with generated(side, rate=5_000):
        wait_for_sends(side)
        time.sleep(2)
        window = Window(side)
        time.sleep(SEND_SECONDS)
        values = window.close()
    return {
        "send_us": values["broker_cpu_us"],
        "idle_ms_per_second": round(idle * 1000, 2),
        "anonymous_mb": side.memory_mb()["anonymous"],
    }


def _topic(side: RocketLake, name: str, count: int) -> None:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": str(count), "writeQueueNums": str(count)}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    wire.ask(side.broker, wire.UPDATE_AND_CREATE_TOPIC, fields)


def _send_one(side: RocketLake, topic: str, queue: int) -> None:
    fields = {"a": "growth", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0"}
    fields |= {"g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    wire.ask(side.broker, 310, fields, b"growth")


def _heartbeat(client_id: str, names: list[str]) -> bytes:
    consumers = [
        {
            "groupName": name,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": "BenchmarkTest", "subString": "*", "subVersion": 1, "tagsSet": []}],
            "unitMode": False,
        }
        for name in names
    ]
    return json.dumps({"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": []}).encode()
