"""Owns running the Java programs of a load and reading what they print.

Apache's own benchmark producer prints every ten seconds; our drivers (interop/java/drivers) twice a second. All use the
binary header codec.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from bench.process import cpu_seconds
from interop.apache import compiled_drivers

PEER = "bench"
HEAP = "512m"
REPORT = re.compile(r"Send TPS: (\d+) Max RT: (\d+) Average RT:\s*([\d.]+) Send Failed: (\d+) Response Failed: (\d+)")


class JavaProgram:
    """A program as a process: its lines, each with the time it came, are kept until asked for."""

    def __init__(self, main: str, *arguments: object, yields: bool = False) -> None:
        """`yields`: it takes only the processor time that all others leave (SCHED_IDLE)."""
        self._main = main
        self._command = ["chrt", "--idle", "0"] if yields else []
        self._command += ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-Drocketmq.serialize.type=ROCKETMQ"]
        self._command += ["-cp", compiled_drivers(PEER), main, *map(str, arguments)]
        self.lines: list[tuple[float, str]] = []
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        self._reader = threading.Thread(target=self._read, name="bench-java-output", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.lines.append((time.monotonic(), line.strip()))
                self._news.notify_all()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def wait_for_line(self, after: int, seconds: float = 60) -> int:
        """Wait until more than `after` lines came; how many there are. Raises if the program ends or stays silent."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.lines) > after or not self.running, seconds):
                raise RuntimeError(f"{self._main} printed nothing new in {seconds:.0f} s")
            if len(self.lines) <= after:
                self._errors.seek(0)
                raise RuntimeError(f"{self._main} ended: {self._errors.read()[-2000:].decode()}")
            return len(self.lines)

    def wait_for_end(self, seconds: float) -> None:
        if self._process.wait(seconds):
            raise RuntimeError(f"{self._main} ended with {self._process.returncode}")
        self._reader.join()


@dataclass(slots=True)
class Report:
    """One report of Apache's producer: sends a second over 10 s, mean and longest round trip in ms, failures so far."""

    at: float
    tps: int
    max_ms: int
    average_ms: float
    failed: int


class BenchmarkProducer(JavaProgram):
    """`org.apache.rocketmq.example.benchmark.Producer`: `threads` threads, each with one send outstanding."""

    def __init__(self, namesrv: str, *, threads: int, body_bytes: int, topic: str = "BenchmarkTest") -> None:
        super().__init__(
            "org.apache.rocketmq.example.benchmark.Producer",
            *("-n", namesrv, "-t", topic, "-w", threads, "-s", body_bytes),
        )

    def reports(self) -> list[Report]:
        found = []
        for at, line in list(self.lines):
            if match := REPORT.search(line):
                tps, max_ms, average, failed, refused = match.groups()
                found.append(Report(at, int(tps), int(max_ms), float(average), int(failed) + int(refused)))
        return found


@dataclass(slots=True)
class Sample:
    """One line of our drivers: when it came, the driver's clock in ms, its counters, ages as age -> count."""

    at: float
    ms: int
    counters: dict[str, int]
    ages: dict[int, int] = field(default_factory=dict)


class Driver(JavaProgram):
    """One of our drivers that print `name=number` lines."""

    def samples(self) -> list[Sample]:
        return [sample_of(at, line) for at, line in list(self.lines) if line.startswith("ms=")]

    def latest(self) -> Sample:
        """The latest sample; waits for the first."""
        while not (found := self.samples()[-1:]):
            self.wait_for_line(len(self.lines))
        return found[0]


def sample_of(at: float, line: str) -> Sample:
    words = dict(part.split("=") for part in line.split())
    pairs = (pair.split(":") for pair in words.pop("ages", "").split(",") if pair)
    ages = {int(age): int(count) for age, count in pairs}
    return Sample(at, int(words.pop("ms")), {name: int(value) for name, value in words.items()}, ages)


class BatchSend(Driver):
    """Batches of `per_batch` messages from `threads` threads; `count` messages, 0 = until stopped."""

    def __init__(
        self,
        namesrv: str,
        *,
        threads: int,
        per_batch: int,
        body_bytes: int,
        count: int = 0,
        topic: str = "BenchmarkTest",
    ) -> None:
        super().__init__("BatchSend", namesrv, topic, threads, per_batch, body_bytes, count)


class Drain(Driver):
    """A push consumer that counts what it receives, from the first offset on."""

    def __init__(
        self, namesrv: str, *, group: str = "bench_drain", topic: str = "BenchmarkTest", yields: bool = False
    ) -> None:
        super().__init__("Drain", namesrv, topic, group, yields=yields)
