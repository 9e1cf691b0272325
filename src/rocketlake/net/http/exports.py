"""Metrics that leave a server by themselves, at an interval: `metricsExporterType` OTLP_GRPC and LOG.

Owns        when they leave, the lines in the log.
Must not know   what is measured, how a receiver is reached (otlp.py).

All is collected for the export, as a scrape does it: between two of them nothing is counted. Counters count since the
start of the server, so an export that fails loses nothing: the next one tells all. It comes soon, and later each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.net.http.exposition import Exposition, Family, Pace, SampleLimit

__all__ = ["Exports", "LogLines", "Taker"]

_log = get_logger(__name__)


class Taker(Protocol):
    """Where metrics go."""

    async def take(self, families: AsyncIterable[Family], pace: Pace, limit: SampleLimit) -> None:
        """Take all of one export. Raises LinkError or RemoteError, and then gets the next one."""

    async def close(self) -> None:
        """Called once, when no `take` runs any more."""


class Exports(Service):
    """Collects and hands over again and again."""

    def __init__(
        self,
        taker: Taker,
        collect: Callable[[Pace, SampleLimit], AsyncGenerator[Family, None]],
        *,
        interval_ms: int,
        samples_max: int,
        clock: Clock,
    ) -> None:
        super().__init__("metrics", clock)
        self._taker = taker
        self._collect = collect
        self._interval_seconds = interval_ms / 1000
        self._samples_max = samples_max
        self._is_done = True
        """False if the last export failed."""

    async def start(self) -> None:
        """The first export comes after an interval."""
        await super().start()
        self.keep("export", self._export, pause_seconds_max=self._interval_seconds)

    async def stop(self) -> None:
        """An export on its way is given up."""
        await super().stop()
        await self._taker.close()

    async def _export(self) -> None:
        if self._is_done:
            await self._clock.sleep(self._interval_seconds)
        self._is_done = False
        pace, limit = Pace(self._clock), SampleLimit(self._samples_max)
        async with contextlib.aclosing(self._collect(pace, limit)) as families:
            await self._taker.take(families, pace, limit)
        self._is_done = True


class LogLines:
    """The log of this process: a line for each sample, as it stands on the page for Prometheus."""

    def __init__(self, common: str) -> None:
        """`common`: labels of every sample."""
        self._common = common

    async def take(self, families: AsyncIterable[Family], pace: Pace, limit: SampleLimit) -> None:
        """See Taker."""
        async for part in Exposition(self._common, limit).parts(families, pace):
            for line in part.decode().splitlines():
                if not line.startswith("#"):
                    _log.info("%s", line)

    async def close(self) -> None:
        """Nothing is open."""
