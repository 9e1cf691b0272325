"""`python -m bench.catch_up`: how fast an empty replica copies the log of its master, Apache's and ours by turns.

Owns        filling a master, the samples of a replica that catches up, the ratio.
Must not know   how each side copies.

For each side a master is filled with so many bytes of 1 KiB messages (a store of the same size, sent by the same Java
client), then empty replicas are started on it, one after the other and by turns with the other side's. MB/s of the log
are those between a tenth and nine tenths; `whole_seconds` from the start of the process until its log and its queues
hold all. Writes bench/results/<date>-catch-up.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench import wire
from bench.__main__ import machine, result_path
from bench.groups import GROUPS, Group, Replica
from bench.java import BatchSend
from bench.window import wait_until

TOPIC, QUEUES = "CatchUp", 16
FROM, TO = 0.1, 0.9
ONE_COPY: dict[str, object] = {"inSyncReplicas": 1, "minInSyncReplicas": 1}


def fill(group: Group, megabytes: int, body_bytes: int) -> Replica:
    """A master alone with so much in its log."""
    master = group.broker(**ONE_COPY)
    master.start()
    group.settled(1)
    wire.create_topic(master.address, group.namesrv, TOPIC, QUEUES)
    with BatchSend(group.namesrv, threads=4, per_batch=32, body_bytes=body_bytes, topic=TOPIC):
        wait_until(lambda: master.log_end() >= megabytes * 1e6, "the master is filled", 600)
    wait_until(partial(is_quiet, master), "the last message is stored", 20)
    return master


def is_quiet(master: Replica) -> bool:
    """True if nothing was appended for a while."""
    end = master.log_end()
    time.sleep(0.5)
    return master.log_end() == end


def catch_up(group: Group, master: Replica, seconds: float) -> dict[str, float]:
    """Start an empty replica, and follow it until it has all; then it goes."""
    end, messages = master.log_end(), master.messages(TOPIC)
    replica = group.broker(**ONE_COPY)
    began, samples = time.monotonic(), []
    cpu_before = master.cpu_seconds()
    replica.start()
    while (at := replica.log_end()) < end:
        samples.append((time.monotonic(), at, replica.cpu_seconds(), master.cpu_seconds()))
        if time.monotonic() - began > seconds:
            raise RuntimeError(f"{group.name}: the replica has {at} of {end} bytes after {seconds:g} s")
        time.sleep(0.1)
    samples.append((time.monotonic(), end, replica.cpu_seconds(), master.cpu_seconds()))
    wait_until(lambda: replica.messages(TOPIC) >= messages, "the queues of the replica hold all", seconds)
    whole = time.monotonic() - began
    first = next(sample for sample in samples if sample[1] >= FROM * end)
    last = [sample for sample in samples if sample[1] <= max(TO * end, first[1])][-1]
    if last is first:
        last = samples[-1]
    size = (last[1] - first[1]) / 1e6
    values = {
        "mb_per_second": round(size / (last[0] - first[0]), 1),
        "whole_seconds": round(whole, 2),
        "whole_mb_per_second": round(end / 1e6 / whole, 1),
        "replica_cpu_ms_per_mb": round((last[2] - first[2]) * 1000 / size, 2),
        "master_cpu_ms_per_mb": round((last[3] - first[3]) * 1000 / size, 2),
        "replica_cpu_seconds": round(replica.cpu_seconds(), 2),
        "master_cpu_seconds": round(master.cpu_seconds() - cpu_before, 2),
        "mb": round(end / 1e6, 1),
    }
    replica.kill()
    group.brokers.remove(replica)
    shutil.rmtree(replica.root)
    print(f"  {group.name}: " + ", ".join(f"{name} {value:g}" for name, value in values.items()), flush=True)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.catch_up")
    parser.add_argument("--mb", type=int, default=1500, help="of the log of each master")
    parser.add_argument("--rounds", type=int, default=2, help="how many replicas of each side catch up")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--classic", action="store_true", help="without a controller; at most 1000 MB, one file")
    parser.add_argument("--only", default="", help="one side: apache or rocketlake")
    parser.add_argument("--seconds", type=float, default=300, help="most for one replica")
    parser.add_argument("--root", type=Path, help="folder for the stores")
    options = parser.parse_args()
    kinds = [kind for kind in GROUPS if options.only in ("", kind.name)]
    runs: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    result: dict[str, Any] = {"machine": machine(), "options": vars(options) | {"root": ""}, "runs": runs}
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-catch-up-", dir=options.root))
    try:
        with ExitStack() as stack:
            groups = [stack.enter_context(kind(folder / kind.name, is_classic=options.classic)) for kind in kinds]
            sides = [(group, fill(group, options.mb, options.body_bytes)) for group in groups]
            for number in range(options.rounds):
                for group, master in sides if number % 2 == 0 else reversed(sides):
                    runs[group.name].append(catch_up(group, master, options.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if len(kinds) > 1:
        result["ratio"] = ratio = {
            name: round(middle(runs["rocketlake"], name) / middle(runs["apache"], name), 2)
            for name in ("mb_per_second", "whole_mb_per_second", "replica_cpu_ms_per_mb", "master_cpu_ms_per_mb")
        }
        print("ours / Apache's: " + ", ".join(f"{name} {value:g}" for name, value in ratio.items()))
    target = result_path("catch-up")
    target.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {target}")


def middle(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


if __name__ == "__main__":
    main()
