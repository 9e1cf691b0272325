"""Owns the Java programs of a load.

Apache's own benchmark producers print every ten seconds; our drivers (interop/java/drivers) twice a second. All use the
binary header codec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.program import Program
from interop.apache import compiled_drivers

PEER = "bench"
HEAP = "512m"
REPORT = re.compile(r"Send TPS: (\d+) Max RT: (\d+) Average RT:\s*([\d.]+) Send Failed: (\d+) Response Failed: (\d+)")
CHECKED = re.compile(r"transaction checkCount: (\d+)")


class JavaProgram(Program):
    """A Java program of the bench peers, heap as given, speaking the binary header; `namesrv` if it has no option."""

    def __init__(
        self, main: str, *arguments: object, namesrv: str = "", java: Sequence[str] = (), peer: str = PEER
    ) -> None:
        """`java`: more options of the Java machine. `peer`: whose client."""
        command = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Drocketmq.serialize.type=ROCKETMQ", *java]
        if namesrv:
            command.append(f"-Drocketmq.namesrv.addr={namesrv}")
        super().__init__(main, [*command, "-cp", compiled_drivers(peer), main, *map(str, arguments)])


@dataclass(slots=True)
class Report:
    """One report of Apache's producer: sends a second over 10 s, mean and longest round trip in ms, failures so far."""

    at: float
    tps: int
    max_ms: int
    average_ms: float
    failed: int


class Reporting(JavaProgram):
    """One of Apache's benchmark producers."""

    def reports(self) -> list[Report]:
        found = []
        for at, line in list(self.lines):
            if match := REPORT.search(line):
                tps, max_ms, average, failed, refused = match.groups()
                found.append(Report(at, int(tps), int(max_ms), float(average), int(failed) + int(refused)))
        return found


class BenchmarkProducer(Reporting):
    """`org.apache.rocketmq.example.benchmark.Producer`: `threads` threads, each with one send outstanding."""

    def __init__(
        self,
        namesrv: str,
        *,
        threads: int,
        body_bytes: int,
        topic: str = "BenchmarkTest",
        java: Sequence[str] = (),
    ) -> None:
        super().__init__(
            "org.apache.rocketmq.example.benchmark.Producer",
            *("-n", namesrv, "-t", topic, "-w", threads, "-s", body_bytes),
            java=java,
        )


class BenchmarkTransactions(Reporting):
    """`org.apache.rocketmq.example.benchmark.TransactionProducer`: each of its threads commits at once what it sent.

    It takes its numbers by position; its topic is always BenchmarkTest.
    """

    def __init__(self, namesrv: str, *, threads: int, body_bytes: int) -> None:
        super().__init__(
            "org.apache.rocketmq.example.benchmark.TransactionProducer", threads, body_bytes, namesrv=namesrv
        )

    def checked(self) -> int:
        """How many transactions it was asked about, by its latest report."""
        found = [int(match[1]) for _at, line in list(self.lines) if (match := CHECKED.search(line))]
        return found[-1] if found else 0


class BatchSend(JavaProgram):
    """Batches of `per_batch` messages, single ones for 1, from `threads` threads.

    `count` messages, 0 = until stopped; each thread at most `per_second` messages a second, 0 = as fast as it goes.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        threads: int,
        per_batch: int,
        body_bytes: int,
        count: int = 0,
        topic: str = "BenchmarkTest",
        per_second: int = 0,
        java: Sequence[str] = (),
        peer: str = PEER,
    ) -> None:
        arguments = namesrv, topic, threads, per_batch, body_bytes, count, per_second
        super().__init__("BatchSend", *arguments, java=java, peer=peer)


class Drain(JavaProgram):
    """A push consumer that counts what it receives, from the first offset on."""

    def __init__(
        self, namesrv: str, *, group: str = "bench_drain", topic: str = "BenchmarkTest", java: Sequence[str] = ()
    ) -> None:
        super().__init__("Drain", namesrv, topic, group, java=java)
