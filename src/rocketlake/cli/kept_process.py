"""Processes of servers that are started again when they end.

Owns        one such process: its start, the addresses that it tells, its end; the start after it has ended.
Must not know   which servers there are (supervisor.py, broker_row.py), options of commands.

A process that ends is started again after some seconds, so that its end can be watched. Each process has a log file and
a session of its own: a Ctrl-C reaches them through the stop of this one only. And the standard input of each is a pipe
from this process: when this process is killed, they stop in order.

Invariant: each server is one process at most. One that needs long for its start is waited for, not started twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.service import Service
from rocketlake.base.settings.config_file import to_properties

__all__ = ["KeptProcesses", "ServerProcess", "ports_of_brokers", "write_settings"]

_AGAIN_SECONDS = 5.0
_SAY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_PORTS_APART = 10
_LOG_MB_MAX = 100
_METRICS = re.compile(r"^metrics are at http://(\S+?)/")
_GRPC = re.compile(r"^gRPC clients come to (\S+)")
_UP = re.compile(r" is up at (\S+?);")


def ports_of_brokers(first: int, count: int) -> list[int]:
    """The ports that brokers get from the first one on; 0: any free ones."""
    return [first and first + _PORTS_APART * number for number in range(count)]


def write_settings(path: Path, settings: Mapping[str, str]) -> Path:
    """A Java properties file that only its owner reads: there may be secrets in it."""
    os.makedirs(path.parent, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(to_properties(settings))
    return path


class ServerProcess:
    """One process: `words` start it. `address`, `metrics`, `grpc`: where it serves, once it has said so."""

    def __init__(self, name: str, words: Sequence[str], log_file: Path, say: Callable[[str], None]) -> None:
        self.name = name
        self.words = tuple(words)
        self.log_file = log_file
        self.address = ""
        self.metrics = ""
        self.grpc = ""
        self.process: asyncio.subprocess.Process | None = None
        self._say = say

    @property
    def pid(self) -> int:
        """0 while it does not run."""
        return self.process.pid if self.process is not None else 0

    async def begin(self) -> None:
        """Start it and wait until it serves: long, if it has much to recover. RocketLakeError if it ends before."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rocketlake", *self.words, "--stop-at-eof", "--log-file", str(self.log_file),
            "--log-max-mb", str(_LOG_MB_MAX),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        said: list[str] = []
        while line := await self._next_line():
            said.append(line)
            if found := _METRICS.search(line):
                self.metrics = found.group(1)
            if found := _GRPC.search(line):
                self.grpc = found.group(1)
            if found := _UP.search(line):
                self.address = found.group(1)
                return
        await self.end()
        raise RocketLakeError(
            f"{self.name} could not be started: {' '.join(said[-3:]).strip()}",
            where=str(self.log_file),
            hint="look at its log file; free its ports with --namesrv-port and --broker-port, or give another --dir",
        )

    async def _next_line(self) -> str:
        """The next line it prints; "" behind the last one. The user hears of a start that takes long."""
        while True:
            try:
                async with asyncio.timeout(_SAY_SECONDS):
                    return await self._line()
            except TimeoutError:
                self._say(f"{self.name} still starts (process {self.pid}); its log file is {self.log_file}")

    async def ended(self) -> int:
        """Wait for its end; the exit code, or minus the number of the signal."""
        assert self.process is not None
        while await self._line():
            pass  # else a full pipe would stop it
        return await self.process.wait()

    async def end(self) -> None:
        """Stop it in order; kill it if that takes too long."""
        process = self.process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                process.send_signal(number)
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.ended()
                    return

    async def _line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode(errors="replace")


class KeptProcesses(Service):
    """Processes that are kept running. `say`: tell the user."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        super().__init__(name, SystemClock())
        self._say = say
        self._is_stopping = False

    def keep_running(self, servers: Sequence[ServerProcess]) -> None:
        """Start each again that ends."""
        for server in servers:
            self.keep(f"end of {server.name}", partial(self._after_end, server))

    async def stop(self) -> None:
        """None is started again from here on."""
        self._is_stopping = True
        await super().stop()

    async def _after_end(self, server: ServerProcess) -> None:
        """Wait for the end of a process, start it again."""
        code = await server.ended()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with code {code}"
        self._say(f"{server.name} {how}; it starts again in {_AGAIN_SECONDS:g} s")
        while not self._is_stopping:
            await self._clock.sleep(_AGAIN_SECONDS)
            try:
                await server.begin()
            except RocketLakeError as error:
                self._say(f"{error.what}; next try in {_AGAIN_SECONDS:g} s")
            else:
                self._say(f"{server.name} is up again: process {server.pid}")
                return
