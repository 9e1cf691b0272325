"""`rocketlake up --replicas N`: a name server with its controller and a group of brokers, each a process of its own.

Owns        the processes: their folders and settings, start, the start after one has ended, stop.
Must not know   options and output of the command (serve.py), what the servers do.

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
from rocketlake.base.service import Service, stop_each
from rocketlake.net.http.settings import METRICS_SETTINGS
from rocketlake.net.tls.settings import TLS_SETTINGS
from rocketlake.standalone import SETTINGS

__all__ = ["Supervisor", "ports_of_brokers"]

_AGAIN_SECONDS = 5.0
_SAY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_PORTS_APART = 10
_LOG_MB_MAX = 100
_METRICS = re.compile(r"^metrics are at http://(\S+?)/")
_UP = re.compile(r" is up at (\S+?);")


def ports_of_brokers(first: int, count: int) -> list[int]:
    """The ports that brokers get from the first one on; 0: any free ones."""
    return [first and first + _PORTS_APART * number for number in range(count)]


class _Server:
    """One process: `words` start it. `address`, `metrics`: where it serves, once it has said so."""

    def __init__(self, name: str, words: Sequence[str], log_file: Path, say: Callable[[str], None]) -> None:
        self.name = name
        self.words = tuple(words)
        self.log_file = log_file
        self.address = ""
        self.metrics = ""
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


class Supervisor(Service):
    """All processes of one folder."""

    def __init__(
        self,
        folder: Path,
        replicas: int,
        *,
        namesrv_port: int,
        broker_port: int,
        metrics_ports: Sequence[int] = (),
        settings: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """Port 0 takes any free one; else brokers take every tenth from `broker_port` on. `say`: tell the user.

        `metrics_ports`: of the name server and then of each broker; none: there are no metrics.
        """
        super().__init__("supervisor", SystemClock())
        self._folder = folder.absolute()
        self._replicas = replicas
        self._namesrv_port = namesrv_port
        self._broker_port = broker_port
        self._metrics_ports = metrics_ports
        self._settings = dict(settings)
        self._say = say
        self._is_stopping = False
        self.name_server = self._make_name_server()
        self.brokers: list[_Server] = []

    @property
    def group(self) -> str:
        """The name of the brokers' group."""
        return self._settings.get("brokerName", SETTINGS["brokerName"])

    async def start(self) -> None:
        """The name server first: it gives the brokers their ids."""
        await super().start()
        try:
            await self.name_server.begin()
            self._keep_port(self.name_server)
            self.brokers = [self._make_broker(number) for number in range(1, self._replicas + 1)]
            for broker in self.brokers:  # one after the other: so ids follow the numbers of the folders
                await broker.begin()
        except BaseException:
            await self.stop()
            raise
        for server in (self.name_server, *self.brokers):
            self.keep(f"end of {server.name}", partial(self._after_end, server))

    async def stop(self) -> None:
        """Brokers first. What was acknowledged is on disk when this returns."""
        self._is_stopping = True
        await stop_each(super().stop, self._end_brokers, self.name_server.end)

    async def _end_brokers(self) -> None:
        """All at once: each of them waits for others that it hands over to."""
        await asyncio.gather(*[broker.end() for broker in self.brokers])

    async def _after_end(self, server: _Server) -> None:
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

    @staticmethod
    def _keep_port(server: _Server) -> None:
        """Start it again under the port it has now: others know it by that."""
        server.words = (*server.words, "--port", server.address.rpartition(":")[2])

    def _make_name_server(self) -> _Server:
        folder = self._folder / "namesrv"
        conf = _write(
            folder / "namesrv.conf",
            {
                "enableControllerInNamesrv": "true",
                "kvConfigPath": str(folder / "kvConfig.json"),
                **self._metrics(0),
                **{key: self._settings[key] for key in TLS_SETTINGS if key in self._settings},
            },
        )
        words = ("run", "namesrv", "-c", str(conf), "--host", "127.0.0.1", "--port", str(self._namesrv_port))
        return _Server("name server", words, self._folder / "namesrv.log", self._say)

    def _metrics(self, number: int) -> dict[str, str]:
        """The settings of the metrics of one server; 0: the name server."""
        if not self._metrics_ports:
            return {}
        given = {key: self._settings[key] for key in METRICS_SETTINGS if key in self._settings}
        return {"metricsExporterType": "PROM", **given, "metricsPromExporterPort": str(self._metrics_ports[number])}

    def _make_broker(self, number: int) -> _Server:
        folder = self._folder / f"broker-{number}"
        port = ports_of_brokers(self._broker_port, self._replicas)[number - 1]
        conf = _write(
            folder / "broker.conf",
            {
                **SETTINGS,
                **self._settings,
                **self._metrics(number),
                "storePathRootDir": str(folder / "store"),
                "namesrvAddr": self.name_server.address,
                "enableControllerMode": "true",
                "controllerAddr": self.name_server.address,
                "bindAddress": "127.0.0.1",
                "listenPort": str(port),
                "fastListenPort": "0",
            },
        )
        log_file = self._folder / f"broker-{number}.log"
        return _Server(f"broker {number}", ("run", "broker", "-c", str(conf)), log_file, self._say)


def _write(path: Path, settings: Mapping[str, str]) -> Path:
    """A Java properties file."""
    os.makedirs(path.parent, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
