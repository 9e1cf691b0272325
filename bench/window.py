"""Owns one measured stretch of time on a running broker: messages, bytes, CPU, context switches."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.brokers import Side
from bench.plan import Values
from bench.program import Program


class Window:
    """From here to close(): what the broker did. Messages are those that the broker itself counts as stored."""

    def __init__(self, side: Side, *clients: Program) -> None:
        self._side, self._clients = side, clients
        self._start = self._now()

    def _now(self) -> tuple[float, int, int, float, int, float]:
        puts, log_bytes = self._side.counts()
        clients = sum(client.cpu_seconds() for client in self._clients)
        return time.monotonic(), puts, log_bytes, self._side.cpu_seconds(), self._side.context_switches(), clients

    def close(self, messages: int | None = None) -> Values:
        """The figures; `messages` replaces the broker's count where what counts is not a send."""
        pairs = zip(self._start, self._now(), strict=True)
        seconds, puts, log_bytes, cpu, switches, clients = (after - before for before, after in pairs)
        count = max(1, puts if messages is None else messages)
        values = {
            "messages_per_second": round(count / seconds, 1),
            "broker_cpu_us": round(cpu * 1e6 / count, 2),
            "broker_cores": round(cpu / seconds, 3),
            "log_mb_per_second": round(log_bytes / seconds / 1e6, 2),
            "switches_per_message": round(switches / count, 3),
            "seconds": round(seconds, 2),
        }
        if self._clients:
            values["client_cpu_us"] = round(clients * 1e6 / count, 2)
        return values


def started_values(side: Side) -> Values:
    """What every run gives for nothing: the start on an empty store and the memory of the idle broker."""
    return {"start_seconds": round(side.start_seconds, 3), "idle_mb": side.memory_mb()["anonymous"]}


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60, pause: float = 0.05) -> None:
    """Wait for a condition outside of this process."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


def wait_for_sends(side: Side, more: int = 100, seconds: float = 60) -> None:
    """Wait until the broker stored some messages: the client runs."""
    before = side.counts()[0]
    wait_until(lambda: side.counts()[0] >= before + more, f"first {more} sends", seconds, pause=0.2)
