"""Monitor: /metrics, /health and /ready of one server, or its metrics sent at an interval.

Owns        these pages, the families that every server has, the figures about a scrape itself.
Must not know   which server it is, what its own families mean.

All is collected when it is asked for: a request that a client sends costs no more with a monitor than without. /health
says what Health says (base/health.py). /ready says whether clients may be sent here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.net.http.exports import Exports, LogLines, Taker
from rocketlake.net.http.exposition import CONTENT_TYPE, Exposition, Family, Pace, SampleLimit, labels_text, number
from rocketlake.net.http.otlp import OtlpReceiver
from rocketlake.net.http.page import HttpReply, text_reply
from rocketlake.net.http.process import LoopDelay, process_families
from rocketlake.net.http.server import HttpServer
from rocketlake.net.http.settings import MetricsChoice, MetricsExporter, parse_labels
from rocketlake.net.network import Network
from rocketlake.protocol.versions import OUR_VERSION, version_name

__all__ = ["Families", "Monitor"]

_JSON: Final = "application/json"

Families = Callable[[Pace], AsyncGenerator[Family, None]]
"""Collects the families of a server; it rests between pieces of work."""


class Monitor(Service):
    """Serves the pages if the settings want them."""

    def __init__(
        self,
        choice: MetricsChoice,
        labels: Mapping[str, object],
        families: Families,
        not_ready: Callable[[], Sequence[str]],
        *,
        clock: Clock,
        network: Network,
    ) -> None:
        """`labels`: of every sample. `not_ready`: why clients should not come here; none: they may. UsageError."""
        super().__init__("monitor", clock)
        self._choice = choice
        self._labels = {**{name: str(value) for name, value in labels.items()}, **parse_labels(choice.labels)}
        self._common = labels_text(self._labels)
        self._families = families
        self._not_ready = not_ready
        self._started_ms = clock.now_ms()
        self._delay = LoopDelay(clock)
        self._scrape_seconds = 0.0
        self._server = HttpServer(
            {"/metrics": self._metrics, "/health": self._health, "/ready": self._ready},
            host=choice.host,
            port=choice.port,
            clock=clock,
            network=network,
            name="metrics",
        )
        self._exports = self._make_exports()
        self.adopt(self._delay, self._server, *self._exports)

    @property
    def address(self) -> str:
        """`host:port` of the pages, known from the start on; "" without them."""
        return f"{self._choice.host}:{self._server.port}" if self._is_wanted else ""

    @property
    def _is_wanted(self) -> bool:
        return self._choice.exporter is MetricsExporter.PROM

    async def start(self) -> None:
        """Listen, if the settings want it. CannotListen if the address is taken."""
        await super().start()
        if self._is_wanted:
            await self._server.start()
        if self._choice.exporter is not MetricsExporter.DISABLE:
            await self._delay.start()
        for each in self._exports:
            await each.start()

    async def stop(self) -> None:
        """Close the listener, end the exports."""
        for part in (*self._exports, self._server, self._delay):
            await part.stop()
        await super().stop()

    def _make_exports(self) -> list[Exports]:
        taker: Taker
        choice = self._choice
        if choice.exporter is MetricsExporter.OTLP_GRPC:
            taker, interval_ms = OtlpReceiver(choice, self._labels, self._started_ms), choice.otlp_interval_ms
        elif choice.exporter is MetricsExporter.LOG:
            taker, interval_ms = LogLines(self._common), choice.log_interval_ms
        else:
            return []
        most = choice.samples_max
        return [Exports(taker, self._collect, interval_ms=interval_ms, samples_max=most, clock=self._clock)]

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _metrics(self) -> HttpReply:
        pace, limit = Pace(self._clock), SampleLimit(self._choice.samples_max)
        text = Exposition(self._common, limit)
        return HttpReply(text.parts(self._collect(pace, limit), pace), content_type=CONTENT_TYPE)

    async def _collect(self, pace: Pace, limit: SampleLimit) -> AsyncGenerator[Family, None]:
        for family in process_families(self._started_ms, self._delay, version_name(OUR_VERSION)):
            yield family
        yield number("rocketlake_troubles", "What /health tells: parts that do not work now", len(self.health.troubles))
        yield number("rocketlake_ready", "What /ready tells: 1 if clients may come", not self._not_ready())
        async with contextlib.aclosing(self._families(pace)) as families:
            async for family in families:
                yield family
        yield number("rocketlake_metrics_series", "Samples of this answer", limit.samples)
        dropped = [(labels_text({"family": name}), count) for name, count in limit.dropped.items()]
        what = "Samples left out of this answer because of metricsOtelCardinalityLimit"
        yield Family("rocketlake_metrics_dropped_series", "gauge", what, dropped)
        yield number("rocketlake_metrics_scrape", "Work of the answer before this one", self._scrape_seconds, "seconds")
        self._scrape_seconds = pace.worked

    def _health(self) -> HttpReply:
        troubles = {
            name: {"reason": trouble.reason, "since_ms": int(trouble.since_ms)}
            for name, trouble in self.health.troubles.items()
        }
        return _json({"health": "red" if troubles else "green", "troubles": troubles}, not troubles)

    def _ready(self) -> HttpReply:
        reasons = list(self._not_ready())
        return _json({"ready": not reasons, "reasons": reasons}, not reasons)


def _json(content: Mapping[str, bool | str | Iterable[str] | Mapping[str, object]], is_well: bool) -> HttpReply:
    return text_reply(msgspec.json.encode(content).decode() + "\n", 200 if is_well else 503, _JSON)
