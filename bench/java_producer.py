"""Owns running Apache's benchmark producer (rocketmq-example) and reading its ten-second reports."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from dataclasses import dataclass
from queue import Empty, Queue

from interop.apache import classpath

REPORT = re.compile(r"Send TPS: (\d+) Max RT: (\d+) Average RT:\s*([\d.]+) Send Failed: (\d+) Response Failed: (\d+)")
PRODUCER = "org.apache.rocketmq.example.benchmark.Producer"


@dataclass(slots=True)
class Report:
    """One report: sends per second over the last 10 s, average and largest round trip in ms, failures so far."""

    tps: int
    max_ms: int
    average_ms: float
    failed: int


class JavaProducer:
    """The benchmark program as a process: start(), then next_report() about every 10 s, then stop()."""

    def __init__(self, namesrv: str, *, threads: int, body_bytes: int, topic: str = "BenchmarkTest") -> None:
        jars = classpath("bench")
        self._command = ["java", "-Xms512m", "-Xmx512m", "-cp", jars, PRODUCER]
        self._command += ["-n", namesrv, "-t", topic, "-w", str(threads), "-s", str(body_bytes)]
        self._reports: Queue[Report] = Queue()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        threading.Thread(target=self._read, name="bench-producer-output", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := REPORT.search(line):
                tps, max_ms, average, failed, refused = found.groups()
                self._reports.put(Report(int(tps), int(max_ms), float(average), int(failed) + int(refused)))

    def next_report(self, seconds: float = 30) -> Report:
        """The next report; raises if the program ended or stays silent."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                return self._reports.get(timeout=0.5)
            except Empty:
                if self._process.poll() is not None:
                    raise RuntimeError(f"Apache's producer ended with {self._process.returncode}") from None
        raise RuntimeError(f"Apache's producer gave no report in {seconds:.0f} s")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
