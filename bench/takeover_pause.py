"""`python -m bench.takeover_pause`: how long Java's clients wait when their Apache broker is taken over by ours.

Owns        the takeover under load, the two kinds of clients, what counts as lost.
Must not know   how a takeover works, what the clients do (interop/java/drivers/Moving.java).

An Apache broker and name server 5.3.3; producers and consumers of 5.3.3 that look for routes every 30 s, as they do
unless told otherwise, and every second. While they go on, `rocketlake follow` and `rocketlake takeover` run as an
operator types them. Delayed messages, messages to be retried and open transactions cross the takeover. Exits with 1 if
a message was acknowledged and never read. Writes bench/results/<date>-takeover.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.__main__ import machine, result_path
from bench.program import Program
from interop.apache import ApacheCluster, compiled_drivers, free_ports

NAME = "moving"
LOOKS = {"every 30 s (usual)": (30_000, 4), "every second": (1_000, 2)}
"""How often clients look for routes: (ms, pairs of a producer and a consumer)."""
SETTINGS: dict[str, object] = {
    "brokerName": NAME,
    "transactionTimeOut": 30_000,
    "transactionCheckInterval": 5_000,
}
BEHIND_SECONDS = 40
PATIENCE_SECONDS = 90
PAUSE = re.compile(r"nobody took messages for ([\d.]+) s")


class Clients(Program):
    """Some pairs of clients in one process."""

    def __init__(self, namesrv: str, topics: str, look_ms: int, pairs: int) -> None:
        command = ["java", "-Xmx256m", "-cp", compiled_drivers("server"), "Moving", namesrv, topics]
        super().__init__("Moving", [*command, str(look_ms), str(pairs), str(PATIENCE_SECONDS)])

    def pairs(self) -> list[dict[str, int]]:
        """What each pair saw."""
        lines = [line.split() for _at, line in self.lines if line.startswith("pair=")]
        return [{name: int(value) for name, value in (word.split("=") for word in line[1:])} for line in lines]


def until(program: Program, words: str, seconds: float) -> None:
    """Until the program has said this."""
    end = time.monotonic() + seconds
    seen = 0
    while not any(words in line for _at, line in program.lines):
        seen = program.wait_for_line(seen, max(0.1, end - time.monotonic()))


def rocketlake(*words: object) -> list[str]:
    """A command of the terminal."""
    return [sys.executable, "-u", "-m", "rocketlake", *map(str, words)]


def measure(folder: Path) -> tuple[float, dict[str, list[dict[str, int]]]]:
    """One takeover: (seconds without a master, what the pairs of each kind saw)."""
    (port,) = free_ports(1)
    apache = ApacheCluster(folder / "apache", settings=SETTINGS)
    with ExitStack() as stack:
        stack.callback(apache.kill)
        apache.start()
        clients = {
            kind: stack.enter_context(Clients(apache.namesrv, f"Moved{look_ms}x", look_ms, pairs))
            for kind, (look_ms, pairs) in LOOKS.items()
        }
        ours = Program("follow", rocketlake("follow", apache.broker, "--dir", folder / "ours", "--port", port))
        until(stack.enter_context(ours), "in step: lacks", 120)
        for each in clients.values():
            until(each, "pairs ready", 180)
        command = rocketlake("takeover", NAME, "-n", apache.namesrv, "--yes")
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        time.sleep(BEHIND_SECONDS)
        for each in clients.values():
            each.say("end")
        for each in clients.values():
            until(each, "pairs ended", PATIENCE_SECONDS + 60)
        found = PAUSE.search(said)
        assert found, said
        return float(found[1]), {kind: each.pairs() for kind, each in clients.items()}


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    result: dict[str, object] = {"machine": machine(), "rounds": (runs := [])}
    lost = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="takeover-") as folder:
            without_master, seen = measure(Path(folder))
        runs.append({"without_master_seconds": without_master, "clients": seen})
        print(f"nobody took messages for {without_master:.2f} s")
        for kind, pairs in seen.items():
            for pair in pairs:
                lost += pair["lost"]
                print(f"  {kind:20} " + "  ".join(f"{name} {value}" for name, value in pair.items()))
    path = result_path("takeover")
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(path)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
