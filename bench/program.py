"""Owns the programs that make a load, as processes: their lines as they come, the samples in them.

Must not know   what is measured.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from bench.process import cpu_seconds


class Program:
    """A program as a process: its lines, each with the time it came, are kept until asked for."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._command = command
        self.lines: list[tuple[float, str]] = []
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, name="bench-output", daemon=True)
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

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def wait_for_line(self, after: int, seconds: float = 60) -> int:
        """Wait until more than `after` lines came; how many there are. Raises if the program ends or stays silent."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.lines) > after or not self.running, seconds):
                raise RuntimeError(f"{self._name} printed nothing new in {seconds:.0f} s")
            if len(self.lines) <= after:
                self._errors.seek(0)
                raise RuntimeError(f"{self._name} ended: {self._errors.read()[-2000:].decode()}")
            return len(self.lines)

    def wait_for_end(self, seconds: float) -> None:
        if self._process.wait(seconds):
            raise RuntimeError(f"{self._name} ended with {self._process.returncode}")
        self._reader.join()

    def samples(self) -> list[Sample]:
        return [sample_of(at, line) for at, line in list(self.lines) if line.startswith("ms=")]

    def latest(self) -> Sample:
        """The latest sample; waits for the first."""
        while not (found := self.samples()[-1:]):
            self.wait_for_line(len(self.lines))
        return found[0]


@dataclass(slots=True)
class Sample:
    """One `name=number` line: when it came, the driver's clock in ms, its counters, ages as age -> count."""

    at: float
    ms: int
    counters: dict[str, int]
    ages: dict[int, int] = field(default_factory=dict)


def sample_of(at: float, line: str) -> Sample:
    words = dict(part.split("=") for part in line.split())
    pairs = (pair.split(":") for pair in words.pop("ages", "").split(",") if pair)
    ages = {int(age): int(count) for age, count in pairs}
    return Sample(at, int(words.pop("ms")), {name: int(value) for name, value in words.items()}, ages)
